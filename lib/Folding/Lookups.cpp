//===- Lookups.cpp - Elements by index ------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Gather.h"
#include "lib/Folding/Evaluators.h"
#include "lib/Folding/Numbers.h"
#include <algorithm>
#include <cstring>
#include <limits>

using namespace mlir;

namespace shale::folding {

namespace {

using Operands = ArrayRef<TypedBuffer>;
using Result = std::optional<TypedBuffer>;

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

/// Copies slices of one size, one after the other. Slices of the width of a number are copied as
/// one.
class SliceCopier {
public:
  /// `bytes`: of one slice.
  SliceCopier(int64_t bytes, char *to) : bytes(bytes), next(to) {}

  void copy(const char *from) {
    if (bytes == 1)
      *next = *from;
    else if (bytes == 4)
      std::memcpy(next, from, 4);
    else if (bytes == 8)
      std::memcpy(next, from, 8);
    else
      std::memcpy(next, from, bytes);
    next += bytes;
  }

private:
  const int64_t bytes;
  char *next;
};

/// Returns the indices as i64, with size 1 along those of the dimensions [first, end) in which they
/// repeat.
Result distinctIndices(const TypedBuffer &indices, int64_t first, int64_t end) {
  SmallVector<int64_t> shape(indices.shape());
  for (int64_t d = first; d < end; ++d)
    if (shape[d] > 1 && indices.strides()[d] == 0)
      shape[d] = 1;
  return converted(indices.view(shape, indices.strides()), ElementKind::I64);
}

const int64_t *numbersOf(const TypedBuffer &indices) {
  return reinterpret_cast<const int64_t *>(indices.data());
}

Result foldGather(nn::GatherOp op, Operands operands) {
  if (resultType(op).getNumElements() == 0)
    return allocateResult(op);
  const TypedBuffer &input = operands[0];
  int64_t dim = op.getDim(), size = input.dim(dim);
  Result indices = distinctIndices(operands[1], 0, operands[1].rank());
  if (!indices)
    return std::nullopt;
  ArrayRef<int64_t> numbers(numbersOf(*indices), indices->size());
  if (llvm::any_of(numbers, [&](int64_t index) { return index < 0 || index >= size; }))
    return std::nullopt;
  ArrayRef<int64_t> shape = resultType(op).getShape();
  if (input.isSplat())
    return input.view(shape, SmallVector<int64_t>(shape.size(), 0));
  SmallVector<int64_t> distinct(input.shape().take_front(dim));
  llvm::append_range(distinct, indices->shape());
  llvm::append_range(distinct, input.shape().drop_front(dim + 1));
  Result table = input.rowMajor(), result = TypedBuffer::allocate(input.kind(), distinct);
  if (!table || !result)
    return std::nullopt;
  int64_t outer = product(input.shape().take_front(dim));
  int64_t slice = product(input.shape().drop_front(dim + 1)) * widthOf(input.kind());
  SliceCopier copier(slice, result->mutableData());
  for (int64_t o = 0; o < outer; ++o) {
    const char *from = table->data() + o * size * slice;
    for (int64_t index : numbers)
      copier.copy(from + index * slice);
  }
  return result->repeated(shape);
}

/// Picks rows of a table. A row that is out of range is 0.
Result foldEmbedding(nn::EmbeddingOp op, Operands operands) {
  if (resultType(op).getNumElements() == 0)
    return allocateResult(op);
  int64_t count = operands[0].dim(0), width = operands[0].dim(1);
  Result table = operands[0].rowMajor();
  Result indices = distinctIndices(operands[1], 0, operands[1].rank());
  Result nothing = TypedBuffer::allocate(operands[0].kind(), width);
  if (!table || !indices || !nothing)
    return std::nullopt;
  fill(*nothing, 0);
  SmallVector<int64_t> distinct(indices->shape());
  distinct.push_back(width);
  Result result = TypedBuffer::allocate(table->kind(), distinct);
  if (!result)
    return std::nullopt;
  int64_t slice = width * widthOf(table->kind());
  SliceCopier copier(slice, result->mutableData());
  for (int64_t index : ArrayRef<int64_t>(numbersOf(*indices), indices->size()))
    copier.copy(index < 0 || index >= count ? nothing->data() : table->data() + index * slice);
  return result->repeated(resultType(op).getShape());
}

/// The shapes of nn.gather_nd and its gradient: index tuples [batches, tuples, rank] into a table
/// [batches, looked..., slice].
struct TupleShapes {
  TupleShapes(ArrayRef<int64_t> table, ArrayRef<int64_t> indices, int64_t batchDims)
      : rank(indices.back()), looked(table.slice(batchDims, rank)),
        batches(product(table.take_front(batchDims))),
        tuples(product(indices.drop_back().drop_front(batchDims))), rows(product(looked)),
        slice(product(table.drop_front(batchDims + rank))) {}

  /// Returns the row that an index tuple picks; -1 if one of its indices is out of range.
  int64_t rowOf(const int64_t *tuple) const {
    int64_t row = 0;
    for (auto [index, size] : llvm::zip_equal(ArrayRef<int64_t>(tuple, rank), looked)) {
      if (index < 0 || index >= size)
        return -1;
      row = row * size + index;
    }
    return row;
  }

  int64_t rank;
  ArrayRef<int64_t> looked;
  int64_t batches, tuples, rows, slice;
};

Result foldGatherNd(nn::GatherNdOp op, Operands operands) {
  if (resultType(op).getNumElements() == 0)
    return allocateResult(op);
  int64_t batchDims = op.getBatchDims(), last = operands[1].rank() - 1;
  // Batches of a splat are equal, so indices that repeat along them pick equal slices.
  bool isSplat = operands[0].isSplat();
  Result indices = distinctIndices(operands[1], isSplat ? 0 : batchDims, last);
  if (!indices)
    return std::nullopt;
  TypedBuffer input = operands[0];
  if (isSplat) {
    SmallVector<int64_t> shape(indices->shape().take_front(batchDims));
    llvm::append_range(shape, input.shape().drop_front(batchDims));
    input = input.view(shape, SmallVector<int64_t>(shape.size(), 0));
  }
  TupleShapes shapes(input.shape(), indices->shape(), batchDims);
  const int64_t *tuple = numbersOf(*indices);
  int64_t count = shapes.batches * shapes.tuples;
  bool isInside = true;
  for (int64_t i = 0; i < count && isInside; ++i)
    isInside = shapes.rowOf(tuple + i * shapes.rank) >= 0;
  ArrayRef<int64_t> shape = resultType(op).getShape();
  if (isSplat && isInside)
    return input.view(shape, SmallVector<int64_t>(shape.size(), 0));
  SmallVector<int64_t> distinct(indices->shape().drop_back());
  llvm::append_range(distinct, input.shape().drop_front(batchDims + shapes.rank));
  Result table = input.rowMajor(), result = TypedBuffer::allocate(input.kind(), distinct);
  Result nothing = TypedBuffer::allocate(input.kind(), isInside ? 0 : shapes.slice);
  if (!table || !result || !nothing)
    return std::nullopt;
  fill(*nothing, isFloat(input.kind()) ? std::numeric_limits<double>::quiet_NaN() : 0);
  int64_t slice = shapes.slice * widthOf(input.kind());
  SliceCopier copier(slice, result->mutableData());
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = shapes.rowOf(tuple + i * shapes.rank), batch = i / shapes.tuples;
    copier.copy(row < 0 ? nothing->data() : table->data() + (batch * shapes.rows + row) * slice);
  }
  return result->repeated(shape);
}

Result foldGatherNdGrad(nn::GatherNdGradOp op, Operands operands) {
  ArrayRef<int64_t> shape = resultType(op).getShape();
  Result indices = converted(operands[0], ElementKind::I64);
  Result slices = converted(operands[1], ElementKind::F64);
  Result sums = TypedBuffer::allocate(ElementKind::F64, shape);
  if (!indices || !slices || !sums)
    return std::nullopt;
  double *to = reinterpret_cast<double *>(sums->mutableData());
  std::fill_n(to, sums->size(), 0.0);
  if (slices->size() > 0) {
    TupleShapes shapes(shape, indices->shape(), op.getBatchDims());
    const double *from = reinterpret_cast<const double *>(slices->data());
    const int64_t *tuple = numbersOf(*indices);
    for (int64_t i = 0, e = shapes.batches * shapes.tuples; i < e; ++i) {
      int64_t row = shapes.rowOf(tuple + i * shapes.rank);
      if (row < 0)
        continue;
      int64_t first = (i / shapes.tuples * shapes.rows + row) * shapes.slice;
      for (int64_t k = 0; k < shapes.slice; ++k)
        to[first + k] += from[i * shapes.slice + k];
    }
  }
  return converted(*sums, *kindOf(resultType(op).getElementType()));
}

} // namespace

void addLookups(Evaluators &evaluators) {
  evaluators.add<nn::GatherOp>(foldGather);
  evaluators.add<nn::EmbeddingOp>(foldEmbedding);
  evaluators.add<nn::GatherNdOp>(foldGatherNd);
  evaluators.add<nn::GatherNdGradOp>(foldGatherNdGrad);
}

} // namespace shale::folding
