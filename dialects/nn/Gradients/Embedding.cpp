//===- Embedding.cpp - Gradient of a table lookup -------------------------===//
#include "dialects/nn/Gradients/Build.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>,
                                         SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] =
      EmbeddingGradOp::create(builder, getLoc(), getTable().getType(),
                              getIndices(), resultGrads[0]);
  return success();
}
