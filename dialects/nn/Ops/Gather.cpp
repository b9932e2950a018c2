//===- Gather.cpp - Elements by index -------------------------------------===//
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Verify.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

LogicalResult GatherOp::verify() {
  auto in = tensorOf(getInput()), indices = tensorOf(getIndices());
  if (failed(verifyDim(*this, getDim(), in.getRank()))) // gather_c1
    return failure();
  SmallVector<int64_t> shape(in.getShape().take_front(getDim()));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, in.getShape().drop_front(getDim() + 1));
  return verifyResult(*this, in.getElementType(), shape); // gather_c2
}

/// Returns the shape of the elements that index tuples pick from `in`.
static FailureOr<SmallVector<int64_t>> pickedShape(Operation *op, RankedTensorType in,
                                                   RankedTensorType indices, int64_t batch) {
  if (batch < 0 || batch > in.getRank() || batch >= indices.getRank() ||
      in.getShape().take_front(batch) != indices.getShape().take_front(batch)) // gather_nd_c1
    return op->emitOpError() << "the first " << batch << " dimensions of " << in << " and "
                             << indices << " must be equal",
           failure();
  int64_t tuple = indices.getShape().back();
  if (tuple > in.getRank() - batch) // gather_nd_c2
    return op->emitOpError() << "index tuples of " << tuple
                             << " are longer than the rank that remains, " << in.getRank() - batch,
           failure();
  SmallVector<int64_t> shape(indices.getShape().drop_back());
  llvm::append_range(shape, in.getShape().drop_front(batch + tuple));
  return shape;
}

LogicalResult GatherNdOp::verify() {
  auto in = tensorOf(getInput());
  auto shape = pickedShape(*this, in, tensorOf(getIndices()), getBatchDims());
  return failed(shape) ? failure()
                       : verifyResult(*this, in.getElementType(), *shape); // gather_nd_c3
}

LogicalResult GatherNdGradOp::verify() {
  auto whole = tensorOf(getResult()), grad = tensorOf(getGrad());
  auto shape = pickedShape(*this, whole, tensorOf(getIndices()), getBatchDims());
  if (failed(shape))
    return failure();
  bool element = grad.getElementType() == whole.getElementType() ||
                 accumulatorType(grad.getElementType()) == whole.getElementType();
  if (!element || grad.getShape() != ArrayRef<int64_t>(*shape)) // gather_nd_grad_c1
    return emitOpError() << "grad must have the type of an nn.gather_nd of the result, "
                         << whole.clone(*shape) << "; got " << grad;
  return success();
}

std::optional<shale::IndexRange> GatherOp::getIndexRange(unsigned number) {
  if (number != getIndicesMutable().getOperandNumber())
    return std::nullopt;
  return shale::IndexRange{tensorOf(getInput()).getDimSize(getDim())};
}

std::optional<shale::IndexRange> GatherNdOp::getIndexRange(unsigned number) {
  ArrayRef<int64_t> sizes = tensorOf(getInput())
                                .getShape()
                                .slice(getBatchDims(), tensorOf(getIndices()).getShape().back());
  // All indices of a tuple have the same range only if the dimensions have the same size.
  if (number != getIndicesMutable().getOperandNumber() || sizes.empty() || !llvm::all_equal(sizes))
    return std::nullopt;
  return shale::IndexRange{sizes.front()};
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Gather.cpp.inc"

void shale::nn::registerGatherOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Gather.cpp.inc"
      >();
}
