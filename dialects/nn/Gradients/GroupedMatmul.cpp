//===- GroupedMatmul.cpp - Gradients of matmuls of groups of rows ---------===//
#include "dialects/nn/Ops/GroupedMatmul.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult GroupedMatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                             ArrayRef<bool> wanted,
                                             SmallVectorImpl<Value> &operandGrads) {
  Value g = resultGrads[0], lhs = getLhs(), rhs = getRhs();
  if (wanted[0])
    operandGrads[0] = GroupedMatmulOp::create(builder, getLoc(), lhs.getType(), g, rhs, getEnds(),
                                              !getTransposeRhs());
  if (wanted[1])
    operandGrads[1] =
        GroupedMatmulGradOp::create(builder, getLoc(), rhs.getType(), getTransposeRhs() ? g : lhs,
                                    getTransposeRhs() ? lhs : g, getEnds());
  return success();
}
