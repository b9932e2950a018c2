//===- Embedding.cpp - Rows of a table ------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"

using namespace mlir;
using namespace shale::nn;

/// Checks that `rows` is one row of `table` per index.
static LogicalResult verifyRows(Operation *op, Type table, Type indices, Type rows, bool sums) {
  auto t = cast<RankedTensorType>(table);
  auto i = cast<RankedTensorType>(indices);
  auto fits = [&] {
    if (t.getRank() != 2)
      return false;
    SmallVector<int64_t> shape(i.getShape());
    shape.push_back(t.getDimSize(1));
    auto r = cast<RankedTensorType>(rows);
    Type element = r.getElementType();
    return r.getShape() == ArrayRef<int64_t>(shape) &&
           (element == t.getElementType() ||
            (sums && shale::accumulatorType(element) == t.getElementType()));
  };
  if (!fits()) // embedding_c1, embedding_grad_c1
    return op->emitOpError()
           << "expects a 2-D table [V, D] and rows of shape indices + [D] of its element type; got "
           << table << ", " << indices << " and " << rows;
  return success();
}

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyRows(*this, getTable().getType(), getIndices().getType(), getType(),
                        /*sums=*/false)))
    return failure();
  int64_t rows = cast<RankedTensorType>(getTable().getType()).getDimSize(0);
  if (auto padding = getPadding(); padding && (int64_t(*padding) < 0 || int64_t(*padding) >= rows))
    return emitOpError("padding is row ")
           << int64_t(*padding) << " of a table of " << rows << " rows";
  return success();
}

LogicalResult EmbeddingGradOp::verify() {
  return verifyRows(*this, getType(), getIndices().getType(), getGrad().getType(), /*sums=*/true);
}

std::optional<shale::IndexRange> EmbeddingOp::getIndexRange(unsigned number) {
  if (number != getIndicesMutable().getOperandNumber())
    return std::nullopt;
  return shale::IndexRange{cast<RankedTensorType>(getTable().getType()).getDimSize(0)};
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Embedding.cpp.inc"

void shale::nn::registerEmbeddingOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Embedding.cpp.inc"
      >();
}
