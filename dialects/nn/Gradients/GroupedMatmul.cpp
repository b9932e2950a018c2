//===- GroupedMatmul.cpp - Gradients of matmuls of groups of rows ---------===//
#include "dialects/nn/Ops/GroupedMatmul.h"

using namespace mlir;
using namespace shale::nn;

/// Builds the gradients of a matmul of rows, each with one of several matrices. `numbers` tell with
/// which; `rest` are further arguments of both ops.
template <typename GradOp, typename OpT, typename... Rest>
static LogicalResult buildGradients(OpT op, Value numbers, OpBuilder &builder, Value g,
                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &grads,
                                    Rest... rest) {
  Value lhs = op.getLhs(), rhs = op.getRhs();
  bool transposed = op.getTransposeRhs();
  if (wanted[0])
    grads[0] =
        OpT::create(builder, op.getLoc(), lhs.getType(), g, rhs, numbers, !transposed, rest...);
  if (wanted[1])
    grads[1] = GradOp::create(builder, op.getLoc(), rhs.getType(), transposed ? g : lhs,
                              transposed ? lhs : g, numbers, rest...);
  return success();
}

LogicalResult GroupedMatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                             ArrayRef<bool> wanted,
                                             SmallVectorImpl<Value> &operandGrads) {
  return buildGradients<GroupedMatmulGradOp>(*this, getEnds(), builder, resultGrads[0], wanted,
                                             operandGrads, getOfAttr());
}

LogicalResult ExpertMatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                            ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &operandGrads) {
  return buildGradients<ExpertMatmulGradOp>(*this, getExperts(), builder, resultGrads[0], wanted,
                                            operandGrads, getParts(), getOfAttr());
}
