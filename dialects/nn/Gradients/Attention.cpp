//===- Attention.cpp - Gradients of attention and rotary positions --------===//
#include "dialects/nn/Ops/Attention.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGrads) {
  if (resultGrads[1])
    return emitOpError("has no gradient for lse");
  if (getMask() && wanted[3])
    return emitOpError("has no gradient for its mask");
  if (!resultGrads[0])
    return success();
  auto grads = AttentionGradOp::create(
      builder, getLoc(), getQuery().getType(), getKey().getType(), getValue().getType(), getQuery(),
      getKey(), getValue(), getResult(), getLse(), resultGrads[0], getMask(), getSeen(),
      getRandom(), getHiddenAttr(), getAddedAttr(), getGuardAttr(), getCausalAttr(),
      getWindowAttr(), getScaleAttr(), getDropoutAttr());
  for (unsigned i = 0; i < 3; ++i)
    operandGrads[i] = grads->getResult(i);
  return success();
}

LogicalResult RopeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  if (wanted[1] || wanted[2])
    return emitOpError("has no gradient for cos and sin");
  operandGrads[0] =
      RopeOp::create(builder, getLoc(), getInput().getType(), resultGrads[0], getCos(), getSin(),
                     getInterleaved(), !getInverse(), getHeaded());
  return success();
}
