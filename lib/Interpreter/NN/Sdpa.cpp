//===- Sdpa.cpp - Attention as libraries compute it -----------------------===//
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// Sizes as in the op's description: query [B, T, H, D], key [B, S, G, D], value [B, S, G, E].
struct Sizes {
  template <typename OpT>
  Sizes(OpT op, Call &call)
      : B(call.operand(0).dim(0)), T(call.operand(0).dim(1)), H(call.operand(0).dim(2)),
        D(call.operand(0).dim(3)), S(call.operand(1).dim(1)), G(call.operand(1).dim(2)),
        E(call.operand(2).dim(3)), causal(op.getCausal()),
        window(op.getWindow().value_or(std::numeric_limits<int64_t>::max())),
        scale(op.getScale().convertToDouble()) {}

  int64_t queryRow(int64_t b, int64_t t, int64_t h) const { return (b * T + t) * H + h; }
  int64_t keyRow(int64_t b, int64_t s, int64_t h) const { return (b * S + s) * G + h / (H / G); }
  int64_t statistic(int64_t b, int64_t t, int64_t h) const { return (b * H + h) * T + t; }
  /// Query t sees the keys [first(t), end(t)).
  int64_t first(int64_t t) const { return std::max<int64_t>(0, t + 1 - window); }
  int64_t end(int64_t t) const { return causal ? t + 1 : S; }
  double score(const double *q, const double *k, int64_t row, int64_t column) const {
    double dot = 0;
    for (int64_t d = 0; d < D; ++d)
      dot += q[row * D + d] * k[column * D + d];
    return dot * scale;
  }

  int64_t B, T, H, D, S, G, E;
  bool causal;
  int64_t window;
  double scale;
};

/// Places of a gradient's heads.
struct Rows {
  int64_t position, head; ///< elements from one to the next
  int64_t at(int64_t p, int64_t h) const { return p * position + h * head; }
};

/// Calls `body` for each row of queries.
template <typename Body> void forEachRow(const Sizes &sizes, Body body) {
  for (int64_t b = 0; b < sizes.B; ++b)
    for (int64_t t = 0; t < sizes.T; ++t)
      for (int64_t h = 0; h < sizes.H; ++h)
        body(b, t, h);
}

LogicalResult evaluateSdpa(nn::SdpaOp op, Call &call) {
  Sizes sizes(op, call);
  if (sizes.S > call.interpreter.options.maxBytes / 8)
    return op.emitError("does not fit into memory");
  const double *q = call.operand(0).floats(), *k = call.operand(1).floats(),
               *v = call.operand(2).floats();
  call.result(0).fill(0);
  double *y = call.result(0).mutableFloats(), *lse = call.result(1).mutableFloats();
  std::vector<double> p(sizes.S);
  forEachRow(sizes, [&](int64_t b, int64_t t, int64_t h) {
    int64_t row = sizes.queryRow(b, t, h), first = sizes.first(t), end = sizes.end(t);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = first; s < end; ++s) {
      p[s] = sizes.score(q, k, row, sizes.keyRow(b, s, h));
      largest = std::isnan(p[s]) ? p[s] : std::max(largest, p[s]);
    }
    for (int64_t s = first; s < end; ++s)
      sum += p[s] = std::exp(p[s] - largest);
    lse[sizes.statistic(b, t, h)] = largest + std::log(sum);
    for (int64_t s = first; s < end; ++s)
      for (int64_t e = 0; e < sizes.E; ++e)
        y[row * sizes.E + e] += p[s] / sum * v[sizes.keyRow(b, s, h) * sizes.E + e];
  });
  return success();
}

// As for nn.attention_grad: P = exp(scores - lse), dV = P^T dO, dP = dO V^T,
// dScores = P (dP - rowsum(dO O)), dQ = scale dScores K, dK = scale dScores^T Q.
LogicalResult evaluateSdpaGrad(nn::SdpaGradOp op, Call &call) {
  Sizes sizes(op, call);
  const double *q = call.operand(0).floats(), *k = call.operand(1).floats(),
               *v = call.operand(2).floats(), *o = call.operand(3).floats(),
               *lse = call.operand(4).floats(), *dO = call.operand(5).floats();
  // Offsets and distances of the rows of positions in each gradient.
  int64_t D = sizes.D, E = sizes.E;
  for (unsigned i = 0; i < call.results.size(); ++i)
    call.result(i).fill(0);
  double *dQ = call.result(0).mutableFloats(), *dK = dQ + sizes.H * D, *dV = dK + sizes.G * D;
  int64_t packed = (sizes.H + 2 * sizes.G) * D;
  Rows queries{packed, D}, keys{packed, D}, values{packed, D};
  if (!op.isPacked()) {
    dK = call.result(1).mutableFloats(), dV = call.result(2).mutableFloats();
    queries = {sizes.H * D, D}, keys = {sizes.G * D, D}, values = {sizes.G * E, E};
  }
  forEachRow(sizes, [&](int64_t b, int64_t t, int64_t h) {
    int64_t row = sizes.queryRow(b, t, h), group = h / (sizes.H / sizes.G);
    double dot = 0;
    for (int64_t e = 0; e < E; ++e)
      dot += dO[row * E + e] * o[row * E + e];
    for (int64_t s = sizes.first(t); s < sizes.end(t); ++s) {
      int64_t column = sizes.keyRow(b, s, h);
      double weight = std::exp(sizes.score(q, k, row, column) - lse[sizes.statistic(b, t, h)]);
      double dP = 0;
      for (int64_t e = 0; e < E; ++e) {
        dP += dO[row * E + e] * v[column * E + e];
        dV[values.at(b * sizes.S + s, group) + e] += weight * dO[row * E + e];
      }
      double dScore = weight * (dP - dot) * sizes.scale;
      for (int64_t d = 0; d < D; ++d) {
        dQ[queries.at(b * sizes.T + t, h) + d] += dScore * k[column * D + d];
        dK[keys.at(b * sizes.S + s, group) + d] += dScore * q[row * D + d];
      }
    }
  });
  return success();
}

} // namespace

void registerSdpa(Registry &registry) {
  registry.add<nn::SdpaOp>(evaluateSdpa);
  registry.add<nn::SdpaGradOp>(evaluateSdpaGrad);
}

} // namespace shale::interp
