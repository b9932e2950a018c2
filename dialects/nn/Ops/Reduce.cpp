//===- Reduce.cpp - Reductions and running sums ---------------------------===//
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Verify.h"
#include "llvm/ADT/SmallBitVector.h"
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::nn;

LogicalResult CumsumOp::verify() { // cumsum_c1
  return verifyDim(*this, getDim(), tensorOf(getInput()).getRank());
}

LogicalResult ReduceOp::verify() {
  auto in = tensorOf(getInput());
  int64_t previous = -1;
  llvm::SmallBitVector reduced(in.getRank());
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= in.getRank()) // reduce_c1
      return emitOpError() << "dims must be strictly increasing dimensions of " << in << "; got "
                           << dim;
    reduced.set(dim);
    previous = dim;
  }
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < in.getRank(); ++i)
    if (!reduced.test(i))
      shape.push_back(in.getDimSize(i));
  if (getType() == RankedTensorType::get(shape, accumulatorType(in.getElementType()))) // reduce_c2
    return success();
  return verifyResult(*this, in.getElementType(), shape); // reduce_c2
}

std::optional<ColumnReduction> shale::nn::matchColumns(ReduceOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape(), dims = op.getDims();
  if (dims.empty() || dims.back() + 1 == int64_t(shape.size()) ||
      dims.back() - dims.front() + 1 != int64_t(dims.size()))
    return std::nullopt;
  auto product = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  };
  return ColumnReduction{product(shape.take_front(dims.front())),
                         product(shape.slice(dims.front(), dims.size())),
                         product(shape.drop_front(dims.back() + 1))};
}

int64_t ReduceOp::getFlops() { return tensorOf(getInput()).getNumElements(); }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Reduce.cpp.inc"

void shale::nn::registerReduceOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Reduce.cpp.inc"
      >();
}
