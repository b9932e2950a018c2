//===- Attention.cpp - Attention and rotary positions ---------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/LargeLse.h"
#include "dialects/nn/Philox.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// Sizes as in the op's description: query [B, H, T, D], key [B, G, S, D], value
/// [B, G, S, E].
struct Heads {
  template <typename OpT>
  Heads(OpT op, Call &call) : Heads(call.operand(0), call.operand(1), call.operand(2)) {
    causal = op.getCausal();
    window = op.getWindow();
    scale = op.getScale().convertToDouble();
    if (op.getMask())
      mask.emplace(call.operand(op.getMaskMutable().begin()->getOperandNumber()));
    if (op.getSeen())
      seen.emplace(call.operand(op.getSeenMutable().begin()->getOperandNumber()));
    if (op.getHidden())
      hidden = op.getHidden()->convertToDouble();
    added = op.getAdded();
  }
  Heads(const Tensor &query, const Tensor &key, const Tensor &value)
      : B(query.dim(0)), H(query.dim(1)), T(query.dim(2)), D(query.dim(3)), G(key.dim(1)),
        S(key.dim(2)), E(value.dim(3)), q(query.floats()), k(key.floats()) {}

  /// A mask, broadcast along dimensions of size 1.
  struct Mask {
    explicit Mask(const Tensor &tensor) : tensor(&tensor), strides(tensor.strides()) {
      for (int64_t d = 0; d < 4; ++d)
        if (tensor.dim(d) == 1)
          strides[d] = 0;
    }
    int64_t at(int64_t b, int64_t h, int64_t t, int64_t s) const {
      return b * strides[0] + h * strides[1] + t * strides[2] + s * strides[3];
    }
    const Tensor *tensor;
    SmallVector<int64_t> strides;
  };
  bool isSeen(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return !seen || seen->tensor->ints()[seen->at(b, h, t, s)];
  }

  /// Returns the number of the first key row for a query head.
  int64_t keyHead(int64_t b, int64_t h) const { return (b * G + h / (H / G)) * S; }
  int64_t queryHead(int64_t b, int64_t h) const { return (b * H + h) * T; }

  /// Whether position s is neither later than position t, if causal, nor outside of its window.
  bool reaches(int64_t t, int64_t s) const {
    int64_t distance = t + (S - T) - s;
    return !(causal && distance < 0) && !(window && std::abs(distance) >= *window);
  }

  /// Computes the scores of one query row before the softmax; -inf for keys that are out of reach.
  void scores(int64_t b, int64_t h, int64_t t, double *out) const {
    const double *row = q + (queryHead(b, h) + t) * D;
    const double *keys = k + keyHead(b, h) * D;
    for (int64_t s = 0; s < S; ++s) {
      if (!reaches(t, s)) {
        out[s] = -std::numeric_limits<double>::infinity();
        continue;
      }
      double dot = 0;
      for (int64_t d = 0; d < D; ++d)
        dot += row[d] * keys[s * D + d];
      out[s] = dot * scale;
      if (mask)
        out[s] += mask->tensor->floats()[mask->at(b, h, t, s)];
      if (!isSeen(b, h, t, s))
        out[s] = added ? out[s] + hidden : hidden;
    }
  }

  int64_t B, H, T, D, G, S, E;
  const double *q, *k;
  std::optional<Mask> mask, seen;
  double hidden = -std::numeric_limits<double>::infinity();
  bool added = false, causal = false;
  std::optional<int64_t> window;
  double scale = 1;
};

/// The dropout factor of each probability: 0, or 1 / (1 - ratio). See nn.dropout.
class Dropped {
public:
  template <typename OpT>
  Dropped(OpT op, Call &call, Element element) : dropout(op.getDropoutAttr()) {
    if (!dropout)
      return;
    unsigned at = op->getNumOperands() - op.getRandom().size();
    auto scalar = [&](unsigned i) { return static_cast<uint64_t>(call.operand(at + i).ints()[0]); };
    place = {scalar(0), scalar(1), scalar(2), static_cast<uint64_t>(dropout.getId())};
    double ratio = dropout.getRatio().getValueAsDouble();
    threshold = nn::dropThreshold(ratio);
    Tensor exact = Tensor::scalar(element, 1 / (1 - ratio));
    if (!call.interpreter.options.asF64)
      exact.roundToElement();
    factor = exact.floats()[0];
    auto q = cast<RankedTensorType>(op.getQuery().getType()).getShape();
    auto k = cast<RankedTensorType>(op.getKey().getType()).getShape();
    shared = q[1] / k[1], rows = q[2], keys = k[2];
    wholeGroups = k[1], wholeShared = shared;
    if (!dropout.getWhole().empty()) {
      offset = scalar(3);
      wholeGroups = dropout.getWhole()[1], wholeShared = dropout.getWhole()[2];
    }
  }

  double operator()(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (!dropout)
      return 1;
    uint64_t head = (b * wholeGroups + h / shared) * wholeShared + h % shared;
    uint64_t element = offset + (head * rows + t) * keys + s;
    uint32_t word = nn::philox(place.counterOf(element), place.key())[0];
    return word >= threshold ? factor : 0;
  }

private:
  nn::DropAttr dropout;
  nn::RandomPlace place{};
  uint32_t threshold = 0;
  double factor = 1;
  uint64_t offset = 0;
  int64_t shared = 1, rows = 0, keys = 0, wholeGroups = 1, wholeShared = 1;
};

LogicalResult evaluateAttention(nn::AttentionOp op, Call &call) {
  Heads heads(op, call);
  Dropped dropped(op, call, call.result(1).element());
  const double *v = call.operand(2).floats();
  double *y = call.result(0).mutableFloats();
  double *lse = call.result(1).mutableFloats();
  std::fill_n(y, call.result(0).size(), 0.0);
  if (heads.S >
      call.interpreter.options.maxBytes / 8) // S may be this large if rows have no elements
    return op.emitError("does not fit into memory");
  std::vector<double> p(heads.S);
  for (int64_t b = 0; b < heads.B; ++b)
    for (int64_t h = 0; h < heads.H; ++h)
      for (int64_t t = 0; t < heads.T; ++t) {
        heads.scores(b, h, t, p.data());
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (double score : p)
          largest = std::isnan(score) ? score : std::max(largest, score);
        int64_t row = heads.queryHead(b, h) + t;
        if (op.getGuard() && largest < 0 && std::isinf(largest)) {
          lse[row] = 0; // the result stays zero
          continue;
        }
        for (double &score : p)
          sum += score = std::exp(score - largest);
        lse[row] = std::isinf(largest) ? largest : largest + std::log(sum);
        const double *values = v + heads.keyHead(b, h) * heads.E;
        for (int64_t s = 0; s < heads.S; ++s) {
          double weight = p[s] / sum * dropped(b, h, t, s);
          for (int64_t e = 0; e < heads.E; ++e)
            y[row * heads.E + e] += weight * values[s * heads.E + e];
        }
      }
  return success();
}

// With P = exp(scores - lse), divided by its sum where lse is large: dV = P^T dO, dP = dO V^T,
// dScores = P (dP - rowsum(dO O)), dQ = scale dScores K, dK = scale dScores^T Q;
// with dropout, dP is multiplied by the dropout factors, and so is P in dV.
LogicalResult evaluateAttentionGrad(nn::AttentionGradOp op, Call &call) {
  Heads heads(op, call);
  double scale = heads.scale;
  Dropped dropped(op, call, call.operand(4).element());
  const double *v = call.operand(2).floats(), *o = call.operand(3).floats();
  const double *lse = call.operand(4).floats(), *dO = call.operand(5).floats();
  for (unsigned i = 0; i < 3; ++i)
    call.result(i).fill(0);
  double *dQ = call.result(0).mutableFloats();
  double *dK = call.result(1).mutableFloats();
  double *dV = call.result(2).mutableFloats();
  int64_t D = heads.D, E = heads.E;
  if (heads.S >
      call.interpreter.options.maxBytes / 8) // S may be this large if rows have no elements
    return op.emitError("does not fit into memory");
  std::vector<double> p(heads.S);
  for (int64_t b = 0; b < heads.B; ++b)
    for (int64_t h = 0; h < heads.H; ++h)
      for (int64_t t = 0; t < heads.T; ++t) {
        heads.scores(b, h, t, p.data());
        int64_t row = heads.queryHead(b, h) + t, key = heads.keyHead(b, h);
        const double *grad = dO + row * E;
        double dot = 0;
        for (int64_t e = 0; e < E; ++e)
          dot += grad[e] * o[row * E + e];
        double total = 1;
        if (nn::mayHaveLargeLse(op) && std::abs(lse[row]) > nn::kLargeLse) {
          total = 0;
          for (double score : p)
            total += std::exp(score - lse[row]);
        }
        for (int64_t s = 0; s < heads.S; ++s) {
          if (!heads.reaches(t, s))
            continue;
          double weight = std::exp(p[s] - lse[row]) / total, dP = 0;
          double kept = dropped(b, h, t, s);
          for (int64_t e = 0; e < E; ++e) {
            dP += grad[e] * v[(key + s) * E + e];
            dV[(key + s) * E + e] += weight * kept * grad[e];
          }
          // A score that is replaced by `hidden` gets no gradient.
          if (!heads.isSeen(b, h, t, s) && !heads.added)
            continue;
          double dScore = weight * (kept * dP - dot) * scale;
          for (int64_t d = 0; d < D; ++d) {
            dQ[row * D + d] += dScore * heads.k[(key + s) * D + d];
            dK[(key + s) * D + d] += dScore * heads.q[row * D + d];
          }
        }
      }
  return success();
}

LogicalResult evaluateRope(nn::RopeOp op, Call &call) {
  const Tensor &input = call.operand(0), &cosines = call.operand(1);
  int64_t D = input.dim(input.rank() - 1), T = cosines.dim(0);
  int64_t half = cosines.dim(1), heads = op.getHeaded() ? input.dim(input.rank() - 2) : 1;
  const double *x = input.floats();
  double sign = op.getInverse() ? -1 : 1;
  double *y = call.result().mutableFloats();
  std::copy_n(x, input.size(), y);
  int64_t rows = D ? input.size() / D : 0;
  for (int64_t r = 0; r < rows; ++r, x += D, y += D)
    for (int64_t i = 0; i < half; ++i) {
      int64_t angle = r / heads % T * half + i;
      double cosine = cosines.floats()[angle];
      double sine = sign * call.operand(2).floats()[angle];
      int64_t first = op.getInterleaved() ? 2 * i : i;
      int64_t second = op.getInterleaved() ? 2 * i + 1 : i + half;
      y[first] = x[first] * cosine - x[second] * sine;
      y[second] = x[second] * cosine + x[first] * sine;
    }
  return success();
}

} // namespace

void registerAttention(Registry &registry) {
  registry.add<nn::AttentionOp>(evaluateAttention);
  registry.add<nn::AttentionGradOp>(evaluateAttentionGrad);
  registry.add<nn::RopeOp>(evaluateRope);
}

} // namespace shale::interp
