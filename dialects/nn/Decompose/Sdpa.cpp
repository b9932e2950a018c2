//===- Sdpa.cpp - Attention as libraries compute it, in simpler ops -------===//
#include "dialects/nn/Ops/Sdpa.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"

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

SmallVector<Value> SdpaOp::decompose(OpBuilder &b) {
  Value q = exchanged(b, getQuery()), k = exchanged(b, getKey()), v = exchanged(b, getValue());
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
  Value q = exchanged(b, getQuery()), k = exchanged(b, getKey()), v = exchanged(b, getValue()),
        o = exchanged(b, getOutput()), grad = exchanged(b, getGrad());
  auto gradient = AttentionGradOp::create(
      b, getLoc(), TypeRange{q.getType(), k.getType(), v.getType()}, q, k, v, o, getLse(), grad,
      /*mask=*/Value(), /*seen=*/Value(), /*random=*/ValueRange(), /*hidden=*/FloatAttr(),
      /*added=*/UnitAttr(), /*guard=*/UnitAttr(), getCausalAttr(), getWindowAttr(), getScaleAttr(),
      /*dropout=*/DropAttr());
  SmallVector<Value> gradients{exchanged(b, gradient.getQueryGrad()),
                               exchanged(b, gradient.getKeyGrad()),
                               exchanged(b, gradient.getValueGrad())};
  if (!isPacked())
    return gradients;
  return {ConcatOp::create(b, getLoc(), getGradients()[0].getType(), gradients, /*dim=*/2)};
}
