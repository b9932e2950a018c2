//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/interfaces/Float8.h"

using namespace mlir;
using namespace shale::nn;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Checks the element types, and that the operands and the result have these sizes.
template <typename OpT>
static LogicalResult verifySizes(OpT op, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs,
                                 ArrayRef<int64_t> result) {
  Type element = typeOf(op.getLhs()).getElementType(),
       out = typeOf(op.getResult()).getElementType();
  if (typeOf(op.getRhs()).getElementType() != element ||
      (out != element && out != shale::accumulatorType(element))) // grouped_matmul_c2
    return op.emitOpError() << "element types of operands must be equal, and that of the result "
                               "the same or the one of their sums; got "
                            << op.getLhs().getType() << ", " << op.getRhs().getType() << " and "
                            << op.getResult().getType();
  if (typeOf(op.getLhs()).getShape() != lhs || typeOf(op.getRhs()).getShape() != rhs ||
      typeOf(op.getResult()).getShape() != result) // grouped_matmul_c1 grouped_matmul_grad_c1
    return op.emitOpError() << "sizes do not agree: " << op.getLhs().getType() << " and "
                            << op.getRhs().getType() << " with ends " << op.getEnds().getType()
                            << " to " << op.getResult().getType();
  return success();
}

/// Returns the number of groups; fails after an error.
template <typename OpT> static FailureOr<int64_t> groupsOf(OpT op, int64_t rhsRank) {
  RankedTensorType ends = typeOf(op.getEnds());
  if (ends.getRank() != 1 || ends.getDimSize(0) < 1 || typeOf(op.getLhs()).getRank() != 2 ||
      typeOf(op.getRhs()).getRank() != rhsRank)
    return op.emitOpError() << "needs rows, matrices and the ends of one or more groups; got "
                            << op.getLhs().getType() << ", " << op.getRhs().getType() << " and "
                            << ends;
  return ends.getDimSize(0);
}

LogicalResult GroupedMatmulOp::verify() {
  FailureOr<int64_t> groups = groupsOf(*this, 3);
  if (failed(groups))
    return failure();
  int64_t rows = typeOf(getLhs()).getDimSize(0), k = typeOf(getLhs()).getDimSize(1),
          n = typeOf(getRhs()).getDimSize(getTransposeRhs() ? 1 : 2);
  SmallVector<int64_t> rhs{*groups, k, n};
  if (getTransposeRhs())
    std::swap(rhs[1], rhs[2]);
  return verifySizes(*this, {rows, k}, rhs, {rows, n});
}

LogicalResult GroupedMatmulGradOp::verify() {
  FailureOr<int64_t> groups = groupsOf(*this, 2);
  if (failed(groups))
    return failure();
  int64_t rows = typeOf(getLhs()).getDimSize(0), k = typeOf(getLhs()).getDimSize(1),
          n = typeOf(getRhs()).getDimSize(1);
  return verifySizes(*this, {rows, k}, {rows, n}, {*groups, k, n});
}

/// Each row is multiplied with one matrix.
int64_t GroupedMatmulOp::getFlops() {
  return 2 * typeOf(getLhs()).getNumElements() * typeOf(getResult()).getDimSize(1);
}

int64_t GroupedMatmulGradOp::getFlops() {
  return 2 * typeOf(getLhs()).getNumElements() * typeOf(getRhs()).getDimSize(1);
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/GroupedMatmul.cpp.inc"

void shale::nn::registerGroupedMatmulOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/GroupedMatmul.cpp.inc"
      >();
}
