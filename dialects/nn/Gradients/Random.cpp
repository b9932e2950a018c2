//===- Random.cpp - Gradients of ops that draw random numbers --------------===//
#include "dialects/nn/Ops/Random.h"

using namespace mlir;
using namespace shale::nn;

/// Applies the same op to the gradient: the same elements are dropped, the others scaled.
LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = DropoutOp::create(builder, getLoc(), getType(), resultGrads[0], getSeed(),
                                      getStep(), getMicrobatch(), getOffset(), getRatioAttr(),
                                      getIdAttr(), getGlobalShapeAttr());
  return success();
}
