//===- Sdpa.cpp - Attention as libraries compute it, in simpler ops -------===//
#include "dialects/nn/Ops/Sdpa.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"
#include <array>

using namespace mlir;
using namespace shale::nn;

/// Exchanges positions and heads.
static Value exchanged(OpBuilder &b, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  ArrayRef<int64_t> shape = type.getShape();
  auto made =
      RankedTensorType::get({shape[0], shape[2], shape[1], shape[3]}, type.getElementType());
  return TransposeOp::create(b, value.getLoc(), made, value, ArrayRef<int64_t>{0, 2, 1, 3});
}

/// Returns query, key and value with heads before positions.
template <typename OpT> static std::array<Value, 3> operandsOf(OpT op, OpBuilder &b) {
  if (!op.hasPackedInputs())
    return {exchanged(b, op.getInputs()[0]), exchanged(b, op.getInputs()[1]),
            exchanged(b, op.getInputs()[2])};
  Composer composer(b, op);
  AttentionSizes s = op.getSizes();
  auto heads = [&](int64_t first, int64_t count) {
    return exchanged(b, composer.slice(op.getInputs()[0], /*dim=*/2, first, first + count));
  };
  return {heads(0, s.heads), heads(s.heads, s.keyHeads), heads(s.heads + s.keyHeads, s.keyHeads)};
}

SmallVector<Value> SdpaOp::decompose(OpBuilder &b) {
  auto [q, k, v] = operandsOf(*this, b);
  auto q4 = cast<RankedTensorType>(q.getType()).getShape();
  auto type = cast<RankedTensorType>(getResult().getType());
  auto result =
      RankedTensorType::get({q4[0], q4[1], q4[2], type.getDimSize(3)}, type.getElementType());
  auto attention =
      AttentionOp::create(b, getLoc(), TypeRange{result, getLse().getType()}, q, k, v,
                          /*mask=*/Value(), /*seen=*/Value(), /*random=*/ValueRange(),
                          /*hidden=*/FloatAttr(), /*added=*/UnitAttr(),
                          /*guard=*/UnitAttr(), getCausalAttr(), getWindowAttr(), getScaleAttr(),
                          /*dropout=*/DropAttr());
  return {exchanged(b, attention.getResult()), attention.getLse()};
}

SmallVector<Value> SdpaGradOp::decompose(OpBuilder &b) {
  auto [q, k, v] = operandsOf(*this, b);
  Value o = exchanged(b, getOutput()), grad = exchanged(b, getGrad());
  auto gradient = AttentionGradOp::create(
      b, getLoc(), TypeRange{q.getType(), k.getType(), v.getType()}, q, k, v, o, getLse(), grad,
      /*mask=*/Value(), /*seen=*/Value(), /*random=*/ValueRange(), /*hidden=*/FloatAttr(),
      /*added=*/UnitAttr(), /*guard=*/UnitAttr(), getCausalAttr(), getWindowAttr(), getScaleAttr(),
      /*dropout=*/DropAttr());
  SmallVector<Value> gradients{exchanged(b, gradient.getQueryGrad()),
                               exchanged(b, gradient.getKeyGrad()),
                               exchanged(b, gradient.getValueGrad())};
  if (!hasPackedGradients())
    return gradients;
  return {ConcatOp::create(b, getLoc(), getGradients()[0].getType(), gradients, /*dim=*/2)};
}
