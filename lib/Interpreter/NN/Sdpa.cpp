//===- Sdpa.cpp - Attention as libraries compute it -----------------------===//
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// Places of heads in a tensor [batch, positions, heads, features].
struct Heads {
  int64_t position, head; ///< elements from one to the next
  /// The first feature of head h of position p, where p counts the positions of all batch rows.
  int64_t at(int64_t p, int64_t h) const { return p * position + h * head; }
};

/// Sizes as in the op's description, and places in the inputs.
struct Sizes {
  template <typename OpT>
  Sizes(OpT op, Call &call)
      : causal(op.getCausal()),
        window(op.getWindow().value_or(std::numeric_limits<int64_t>::max())),
        scale(op.getScale().convertToDouble()) {
    nn::AttentionSizes s = op.getSizes();
    B = s.batch, T = s.length, H = s.heads, D = s.depth, S = s.keyLength, G = s.keyHeads,
    E = s.valueDepth;
    q = call.operand(0).floats();
    if (op.hasPackedInputs()) {
      queries = keys = values = packed();
      k = q + H * D, v = k + G * D;
    } else {
      queries = {H * D, D}, keys = {G * D, D}, values = {G * E, E};
      k = call.operand(1).floats(), v = call.operand(2).floats();
    }
  }

  Heads packed() const { return {(H + 2 * G) * D, D}; }
  int64_t row(int64_t b, int64_t t, int64_t h) const { return (b * T + t) * H + h; }
  int64_t statistic(int64_t b, int64_t t, int64_t h) const { return (b * H + h) * T + t; }
  const double *query(int64_t b, int64_t t, int64_t h) const {
    return q + queries.at(b * T + t, h);
  }
  const double *key(int64_t b, int64_t s, int64_t h) const {
    return k + keys.at(b * S + s, h / (H / G));
  }
  const double *value(int64_t b, int64_t s, int64_t h) const {
    return v + values.at(b * S + s, h / (H / G));
  }
  /// Query t sees the keys [first(t), end(t)).
  int64_t first(int64_t t) const { return std::max<int64_t>(0, t + 1 - window); }
  int64_t end(int64_t t) const { return causal ? t + 1 : S; }
  double score(const double *query, const double *key) const {
    double dot = 0;
    for (int64_t d = 0; d < D; ++d)
      dot += query[d] * key[d];
    return dot * scale;
  }

  int64_t B, T, H, D, S, G, E;
  bool causal;
  int64_t window;
  double scale;
  const double *q, *k, *v;
  Heads queries, keys, values;
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
  call.result(0).fill(0);
  double *y = call.result(0).mutableFloats(), *lse = call.result(1).mutableFloats();
  std::vector<double> p(sizes.S);
  forEachRow(sizes, [&](int64_t b, int64_t t, int64_t h) {
    int64_t row = sizes.row(b, t, h), first = sizes.first(t), end = sizes.end(t);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = first; s < end; ++s) {
      p[s] = sizes.score(sizes.query(b, t, h), sizes.key(b, s, h));
      largest = std::isnan(p[s]) ? p[s] : std::max(largest, p[s]);
    }
    for (int64_t s = first; s < end; ++s)
      sum += p[s] = std::exp(p[s] - largest);
    lse[sizes.statistic(b, t, h)] = largest + std::log(sum);
    for (int64_t s = first; s < end; ++s)
      for (int64_t e = 0; e < sizes.E; ++e)
        y[row * sizes.E + e] += p[s] / sum * sizes.value(b, s, h)[e];
  });
  return success();
}

// As for nn.attention_grad: P = exp(scores - lse), dV = P^T dO, dP = dO V^T,
// dScores = P (dP - rowsum(dO O)), dQ = scale dScores K, dK = scale dScores^T Q.
LogicalResult evaluateSdpaGrad(nn::SdpaGradOp op, Call &call) {
  Sizes sizes(op, call);
  unsigned next = op.getInputs().size();
  const double *o = call.operand(next).floats(), *lse = call.operand(next + 1).floats(),
               *dO = call.operand(next + 2).floats();
  // Offsets and distances of the rows of positions in each gradient.
  int64_t D = sizes.D, E = sizes.E;
  for (unsigned i = 0; i < call.results.size(); ++i)
    call.result(i).fill(0);
  double *dQ = call.result(0).mutableFloats(), *dK = dQ + sizes.H * D, *dV = dK + sizes.G * D;
  Heads queries = sizes.packed(), keys = queries, values = queries;
  if (!op.hasPackedGradients()) {
    dK = call.result(1).mutableFloats(), dV = call.result(2).mutableFloats();
    queries = {sizes.H * D, D}, keys = {sizes.G * D, D}, values = {sizes.G * E, E};
  }
  forEachRow(sizes, [&](int64_t b, int64_t t, int64_t h) {
    int64_t row = sizes.row(b, t, h), group = h / (sizes.H / sizes.G);
    double dot = 0;
    for (int64_t e = 0; e < E; ++e)
      dot += dO[row * E + e] * o[row * E + e];
    for (int64_t s = sizes.first(t); s < sizes.end(t); ++s) {
      const double *q = sizes.query(b, t, h), *k = sizes.key(b, s, h), *v = sizes.value(b, s, h);
      double weight = std::exp(sizes.score(q, k) - lse[sizes.statistic(b, t, h)]);
      double dP = 0;
      for (int64_t e = 0; e < E; ++e) {
        dP += dO[row * E + e] * v[e];
        dV[values.at(b * sizes.S + s, group) + e] += weight * dO[row * E + e];
      }
      double dScore = weight * (dP - dot) * sizes.scale;
      for (int64_t d = 0; d < D; ++d) {
        dQ[queries.at(b * sizes.T + t, h) + d] += dScore * k[d];
        dK[keys.at(b * sizes.S + s, group) + d] += dScore * q[d];
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
