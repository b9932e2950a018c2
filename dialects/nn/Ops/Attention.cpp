//===- Attention.cpp - Attention and rotary positions ---------------------===//
#include "dialects/nn/NN.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks the types and attributes that attention and its gradient share.
static LogicalResult verifyAttention(Operation *op, Value query, Value key, Value value, Value mask,
                                     Type result, Type lse, double scale) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto v = cast<RankedTensorType>(value.getType());
  Type element = q.getElementType();
  auto fail = [&]() {
    return op->emitOpError() << "expects query [B, H, T, D], key [B, G, S, D], value [B, G, S, E], result "
                                "[B, H, T, E] and lse [B, H, T] of one element type; got "
                             << q << ", " << k << ", " << v << ", " << result << " and " << lse;
  };
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4) // attention_c1
    return fail();
  int64_t b = q.getDimSize(0), h = q.getDimSize(1), t = q.getDimSize(2), d = q.getDimSize(3);
  int64_t g = k.getDimSize(1), s = k.getDimSize(2), e = v.getDimSize(3);
  if (k != RankedTensorType::get({b, g, s, d}, element) ||
      v != RankedTensorType::get({b, g, s, e}, element) ||
      result != RankedTensorType::get({b, h, t, e}, element) ||
      (lse != RankedTensorType::get({b, h, t}, element) &&
       lse != RankedTensorType::get({b, h, t}, shale::accumulatorType(element)))) // attention_c1
    return fail();
  if (g == 0 || h == 0 || h % g != 0) // attention_c2
    return op->emitOpError() << "query heads must be a positive multiple of key heads; got " << h << " and " << g;
  if (mask) { // attention_c3
    auto m = cast<RankedTensorType>(mask.getType());
    bool fits = m.getRank() == 4;
    int64_t whole[] = {b, h, t, s};
    for (int64_t i = 0; fits && i < 4; ++i)
      fits = m.getDimSize(i) == 1 || m.getDimSize(i) == whole[i];
    if (!fits)
      return op->emitOpError() << "mask must broadcast to [" << b << ", " << h << ", " << t << ", " << s
                               << "]; got " << m;
  }
  if (!std::isfinite(scale)) // attention_c4
    return op->emitOpError() << "scale must be finite; got " << scale;
  return success();
}

/// Products of a forward pass: q k^T and p v, over visible pairs only.
static int64_t attentionFlops(Value query, Value key, Value value, bool causal) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto v = cast<RankedTensorType>(value.getType());
  int64_t pairs = q.getDimSize(0) * q.getDimSize(1) * q.getDimSize(2) * k.getDimSize(2);
  int64_t flops = 2 * pairs * (q.getDimSize(3) + v.getDimSize(3));
  return causal ? flops / 2 : flops;
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getQuery(), getKey(), getValue(), getMask(), getResult().getType(),
                         getLse().getType(), getScale().convertToDouble());
}

int64_t AttentionOp::getFlops() { return attentionFlops(getQuery(), getKey(), getValue(), getCausal()); }

LogicalResult AttentionGradOp::verify() { // attention_grad_c1
  return verifyAttention(*this, getQuery(), getKey(), getValue(), getMask(), getOutput().getType(),
                         getLse().getType(), getScale().convertToDouble());
}

int64_t AttentionGradOp::getFlops() {
  return attentionFlops(getQuery(), getKey(), getValue(), getCausal()) * 5 / 2;
}

LogicalResult RopeOp::verify() { // rope_c1
  auto x = cast<RankedTensorType>(getInput().getType());
  auto cos = cast<RankedTensorType>(getCos().getType());
  if (x.getRank() < 2 || cos.getRank() != 2 ||
      shale::accumulatorType(cos.getElementType()) != shale::accumulatorType(x.getElementType()) ||
      cos.getDimSize(0) != x.getDimSize(x.getRank() - 2) || cos.getDimSize(1) < 1 ||
      cos.getDimSize(1) > x.getShape().back() / 2)
    return emitOpError() << "expects input [..., T, D] and cos [T, R/2] with 0 < R <= D; got " << x << " and " << cos;
  return success();
}
