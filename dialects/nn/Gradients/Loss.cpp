//===- Loss.cpp - Gradient of cross-entropy -------------------------------===//
#include "dialects/nn/Ops/Loss.h"

using namespace mlir;
using namespace shale::nn;

// The count does not depend on the logits, so its gradient is ignored.
LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                            ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  if (resultGrads[2])
    return emitOpError("has no gradient for lse");
  if (resultGrads[0])
    operandGrads[0] = CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(),
                                                 getLogits(), getLabels(), getLse(), resultGrads[0],
                                                 getIgnoreIndexAttr(), getClassesAttr());
  return success();
}
