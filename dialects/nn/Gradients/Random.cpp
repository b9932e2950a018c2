//===- Random.cpp - Gradients of ops that draw random numbers --------------===//
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace shale::nn;

/// The same elements are dropped, the others scaled: the same op on the gradient.
LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = DropoutOp::create(builder, getLoc(), getType(), resultGrads[0], getSeed(), getStep(),
                                      getMicrobatch(), getOffset(), getRatioAttr(), getIdAttr(), getGlobalShapeAttr());
  return success();
}
