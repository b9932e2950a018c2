//===- Sort.cpp - Orders of elements --------------------------------------===//
#include "dialects/nn/Ops/Sort.h"

using namespace mlir;
using namespace shale::nn;

/// Whether the value is a list of `count` elements.
static bool isList(Value value, int64_t count) {
  return tensorOf(value).getShape() == ArrayRef<int64_t>{count};
}

LogicalResult TopKOp::verify() {
  RankedTensorType input = tensorOf(getInput()), values = tensorOf(getValues());
  if (input.getRank() < 1 || values.getRank() < 1 ||
      values.getShape().back() > input.getShape().back() ||
      input.getShape().back() > INT32_MAX) // top_k_c1
    return emitOpError("expects lines with at least as many elements as results, and less than "
                       "2^31; got ")
           << input << " and " << values;
  SmallVector<int64_t> shape(input.getShape());
  shape.back() = values.getShape().back();
  RankedTensorType wanted = input.clone(shape);
  if (values != wanted || tensorOf(getIndices()).getShape() != wanted.getShape()) // top_k_c2
    return emitOpError("expects values ") << wanted << " and indices of this shape; got " << values
                                          << " and " << getIndices().getType();
  return success();
}

LogicalResult ArgsortOp::verify() {
  int64_t bound = getBound(), count = elements(getIndices());
  if (bound < 0 || bound >= INT32_MAX || count >= INT32_MAX) // argsort_c1
    return emitOpError("expects a bound of at least 0, and less than ")
           << INT32_MAX << " for the bound and the number of indices; got " << bound << " and "
           << count;
  auto isOf32Bits = [](Value value) { return tensorOf(value).getElementType().isInteger(32); };
  if (!isList(getOrder(), count) || !isList(getStarts(), bound + 1) || !isOf32Bits(getOrder()) ||
      !isOf32Bits(getStarts())) // argsort_c2
    return emitOpError("expects an order of ")
           << count << " and starts of " << bound + 1 << " elements of type i32; got "
           << getOrder().getType() << " and " << getStarts().getType();
  return success();
}

LogicalResult SortedEmbeddingGradOp::verify() {
  RankedTensorType table = tensorOf(getResult()), grad = tensorOf(getGrad());
  if (table.getRank() != 2 || !isList(getStarts(), table.getDimSize(0) + 1))
    return emitOpError( // sorted_embedding_grad_c1
               "expects a 2-D table [V, D] and starts of V + 1 elements; got ")
           << table << " and " << getStarts().getType();
  Type element = grad.getElementType(), sum = table.getElementType();
  if (grad.getRank() != 2 || grad.getDimSize(1) != table.getDimSize(1) ||
      !isList(getOrder(), grad.getDimSize(0)) ||
      (element != sum && accumulatorType(element) != sum)) // sorted_embedding_grad_c2
    return emitOpError("expects a gradient [N, D] of the table's element type, and an order of N "
                       "elements; got ")
           << grad << " and " << getOrder().getType() << " for " << table;
  int64_t shape[] = {grad.getDimSize(0) / kSortedPiece, table.getDimSize(1)};
  if (tensorOf(getPieces()) != table.clone(shape)) // sorted_embedding_grad_c3
    return emitOpError("expects sums of the pieces of ")
           << kSortedPiece << " positions, " << table.clone(shape) << "; got "
           << getPieces().getType();
  RankedTensorType squares = table.clone(ArrayRef{table.getDimSize(0)});
  if (getSquares() && tensorOf(getSquares()) != squares) // sorted_embedding_grad_c4
    return emitOpError("expects a sum of squares for each row of the table, ")
           << squares << "; got " << getSquares().getType();
  return success();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sort.cpp.inc"

void shale::nn::registerSortOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Sort.cpp.inc"
      >();
}
