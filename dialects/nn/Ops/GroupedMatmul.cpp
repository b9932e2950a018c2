//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/interfaces/Float8.h"

using namespace mlir;
using namespace shale::nn;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Checks the element types, and that the operands and the result have these sizes, and the numbers
/// so many elements.
template <typename OpT>
static LogicalResult verifySizes(OpT op, Value numbers, int64_t count, ArrayRef<int64_t> lhs,
                                 ArrayRef<int64_t> rhs, ArrayRef<int64_t> result) {
  Type element = typeOf(op.getLhs()).getElementType(),
       out = typeOf(op.getResult()).getElementType();
  if (typeOf(op.getRhs()).getElementType() != element ||
      (out != element && out != shale::accumulatorType(element))) // grouped_matmul_c2
    return op.emitOpError() << "element types of operands must be equal, and that of the result "
                               "the same or the one of their sums; got "
                            << op.getLhs().getType() << ", " << op.getRhs().getType() << " and "
                            << op.getResult().getType();
  if (typeOf(op.getLhs()).getShape() != lhs || typeOf(op.getRhs()).getShape() != rhs ||
      typeOf(op.getResult()).getShape() != result ||
      typeOf(numbers).getDimSize(0) != count) // grouped_matmul_c1 grouped_matmul_grad_c1
    return op.emitOpError() << "sizes do not agree: " << op.getLhs().getType() << " and "
                            << op.getRhs().getType() << " with numbers " << numbers.getType()
                            << " to " << op.getResult().getType();
  return success();
}

/// Returns the shape of the matrices of a matmul of rows; empty after an error about ranks.
template <typename OpT> static SmallVector<int64_t> matricesOf(OpT op, Value numbers) {
  if (typeOf(op.getLhs()).getRank() != 2 || typeOf(op.getRhs()).getRank() != 3 ||
      typeOf(numbers).getRank() != 1 || typeOf(op.getRhs()).getDimSize(0) < 1) {
    op.emitOpError() << "needs rows, one or more matrices and a list of numbers; got "
                     << op.getLhs().getType() << ", " << op.getRhs().getType() << " and "
                     << numbers.getType();
    return {};
  }
  SmallVector<int64_t> shape(typeOf(op.getRhs()).getShape());
  if (op.getTransposeRhs())
    std::swap(shape[1], shape[2]);
  return shape;
}

/// Checks a matmul of rows with matrices [E, K, N]. There is a number for each matrix or row.
template <typename OpT> static LogicalResult verifyRows(OpT op, Value numbers, bool perRow) {
  SmallVector<int64_t> shape = matricesOf(op, numbers);
  if (shape.empty())
    return failure();
  int64_t rows = typeOf(op.getLhs()).getDimSize(0);
  return verifySizes(op, numbers, perRow ? rows : shape[0], {rows, shape[1]},
                     typeOf(op.getRhs()).getShape(), {rows, shape[2]});
}

/// Checks the gradient of matrices [E, K, N].
template <typename OpT> static LogicalResult verifyGradient(OpT op, Value numbers, bool perRow) {
  RankedTensorType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs()),
                   result = typeOf(op.getResult());
  if (lhs.getRank() != 2 || rhs.getRank() != 2 || typeOf(numbers).getRank() != 1 ||
      result.getRank() != 3 || result.getDimSize(0) < 1)
    return op.emitOpError() << "needs rows, one or more matrices and a list of numbers; got " << lhs
                            << ", " << rhs << " and " << numbers.getType() << " to " << result;
  int64_t rows = lhs.getDimSize(0), groups = result.getDimSize(0);
  return verifySizes(op, numbers, perRow ? rows : groups, {rows, lhs.getDimSize(1)},
                     {rows, rhs.getDimSize(1)}, {groups, lhs.getDimSize(1), rhs.getDimSize(1)});
}

/// Checks of how many matrices these are some.
template <typename OpT> static LogicalResult verifyOf(OpT op, Value matrices) {
  int64_t count = typeOf(matrices).getDimSize(0);
  if (int64_t(op.getOf().value_or(count)) < count) // grouped_matmul_c3 grouped_matmul_grad_c3
    return op.emitOpError() << "has " << count << " matrices, which cannot be some of "
                            << *op.getOf();
  return success();
}

LogicalResult GroupedMatmulOp::verify() {
  return failure(failed(verifyRows(*this, getEnds(), /*perRow=*/false)) ||
                 failed(verifyOf(*this, getRhs())));
}
LogicalResult GroupedMatmulGradOp::verify() {
  return failure(failed(verifyGradient(*this, getEnds(), /*perRow=*/false)) ||
                 failed(verifyOf(*this, getResult())));
}

/// Checks the parts of rows and of matrices.
template <typename OpT> static LogicalResult verifyParts(OpT op, Value matrices) {
  int64_t rows = typeOf(op.getLhs()).getDimSize(0), count = typeOf(matrices).getDimSize(0),
          parts = op.getParts();
  if (parts < 1 || rows % parts != 0 ||
      count % parts != 0) // expert_matmul_c3 expert_matmul_grad_c3
    return op.emitOpError() << "has " << parts << " parts, which " << rows << " rows and " << count
                            << " matrices do not divide into";
  return verifyOf(op, matrices); // expert_matmul_c4 expert_matmul_grad_c4
}

// expert_matmul_c1 expert_matmul_c2 expert_matmul_grad_c1 expert_matmul_grad_c2
LogicalResult ExpertMatmulOp::verify() {
  return failure(failed(verifyRows(*this, getExperts(), /*perRow=*/true)) ||
                 failed(verifyParts(*this, getRhs())));
}
LogicalResult ExpertMatmulGradOp::verify() {
  return failure(failed(verifyGradient(*this, getExperts(), /*perRow=*/true)) ||
                 failed(verifyParts(*this, getResult())));
}

// Each row is multiplied with one matrix, or with none if that is not among these.

template <typename OpT>
static int64_t flopsOf(OpT op, Value matrices, int64_t columns, int64_t parts = 1) {
  int64_t count = typeOf(matrices).getDimSize(0);
  double share = double(count) / op.getOf().value_or(count) / parts;
  return 2 * typeOf(op.getLhs()).getNumElements() * columns * share;
}
int64_t GroupedMatmulOp::getFlops() {
  return flopsOf(*this, getRhs(), typeOf(getResult()).getDimSize(1));
}
int64_t ExpertMatmulOp::getFlops() {
  return flopsOf(*this, getRhs(), typeOf(getResult()).getDimSize(1), getParts());
}
int64_t GroupedMatmulGradOp::getFlops() {
  return flopsOf(*this, getResult(), typeOf(getRhs()).getDimSize(1));
}
int64_t ExpertMatmulGradOp::getFlops() {
  return flopsOf(*this, getResult(), typeOf(getRhs()).getDimSize(1), getParts());
}

bool GroupedMatmulOp::isMatmul() { return true; }
bool GroupedMatmulGradOp::isMatmul() { return true; }
bool ExpertMatmulOp::isMatmul() { return true; }
bool ExpertMatmulGradOp::isMatmul() { return true; }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/GroupedMatmul.cpp.inc"

void shale::nn::registerGroupedMatmulOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/GroupedMatmul.cpp.inc"
      >();
}
