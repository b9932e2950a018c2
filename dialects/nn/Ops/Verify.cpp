//===- Verify.cpp - Checks that ops of several families share -------------===//
#include "dialects/nn/Ops/Verify.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

LogicalResult shale::nn::verifyResult(Operation *op, Type element, ArrayRef<int64_t> shape) {
  auto expected = RankedTensorType::get(shape, element);
  if (op->getResult(0).getType() != expected)
    return op->emitOpError() << "result must be " << expected << "; got "
                             << op->getResult(0).getType();
  return success();
}

LogicalResult shale::nn::verifyDim(Operation *op, int64_t dim, int64_t rank) {
  if (dim < 0 || dim >= rank)
    return op->emitOpError() << "dim " << dim << " must be in [0, " << rank << ")";
  return success();
}
