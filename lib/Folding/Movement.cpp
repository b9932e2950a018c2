//===- Movement.cpp - Counts, and ops that move elements ------------------===//
//
// Most of these ops are views of their operand: another shape with other
// strides. Elements are copied when the constant is made.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "lib/Folding/Evaluators.h"
#include "lib/Folding/Numbers.h"

using namespace mlir;

namespace shale::folding {

namespace {

using Operands = ArrayRef<TypedBuffer>;
using Result = std::optional<TypedBuffer>;

Result foldIota(nn::IotaOp op, Operands) {
  RankedTensorType type = resultType(op);
  SmallVector<int64_t> line(type.getRank(), 1);
  line[op.getDim()] = type.getDimSize(op.getDim());
  if (type.getNumElements() == 0) // the line may have elements
    return allocateResult(op);
  Result result = TypedBuffer::allocate(*kindOf(type.getElementType()), line);
  if (!result)
    return std::nullopt;
  int64_t width = widthOf(result->kind());
  char *to = result->mutableData();
  for (int64_t i = 0; i < line[op.getDim()]; ++i, to += width) {
    double number = double(i);
    if (isFloat(result->kind()))
      writeNumbers(result->kind(), &number, 1, to);
    else
      writeNumbers(result->kind(), &i, 1, to);
  }
  return result->repeated(type.getShape());
}

Result foldReshape(nn::ReshapeOp op, Operands operands) {
  ArrayRef<int64_t> shape = resultType(op).getShape();
  if (operands[0].isSplat())
    return operands[0].view(shape, SmallVector<int64_t>(shape.size(), 0));
  Result source = operands[0].rowMajor();
  return source ? Result(source->view(shape, rowMajorStrides(shape))) : std::nullopt;
}

Result foldTranspose(nn::TransposeOp op, Operands operands) {
  SmallVector<int64_t> strides;
  for (int64_t d : op.getPerm())
    strides.push_back(operands[0].strides()[d]);
  return operands[0].view(resultType(op).getShape(), strides);
}

Result foldBroadcast(nn::BroadcastOp op, Operands operands) {
  ArrayRef<int64_t> shape = resultType(op).getShape();
  SmallVector<int64_t> strides(shape.size(), 0);
  for (auto [d, to] : llvm::enumerate(op.getDims()))
    if (operands[0].dim(d) != 1)
      strides[to] = operands[0].strides()[d];
  return operands[0].view(shape, strides);
}

Result foldSlice(nn::SliceOp op, Operands operands) {
  ArrayRef<int64_t> shape = resultType(op).getShape();
  if (llvm::is_contained(shape, 0)) // a start may be the end of the operand
    return allocateResult(op);
  SmallVector<int64_t> strides(operands[0].strides());
  int64_t offset = 0;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    offset += op.getStarts()[d] * stride;
    // A stride beyond the operand picks one element, and its product may overflow.
    stride = shape[d] == 1 ? 0 : stride * op.getStrides()[d];
  }
  return operands[0].view(shape, strides, offset);
}

Result foldPad(nn::PadOp op, Operands operands) {
  Result result = allocateResult(op);
  if (!result)
    return std::nullopt;
  fill(*result, op.getValue().convertToDouble());
  if (operands[0].size() == 0)
    return result;
  SmallVector<int64_t> strides(result->strides());
  int64_t offset = 0;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    offset += op.getLow()[d] * stride;
    // A single element has no neighbour, and the stride to one could overflow.
    stride = operands[0].dim(d) == 1 ? 0 : stride * (op.getInterior()[d] + 1);
  }
  copyElements(operands[0], result->view(operands[0].shape(), strides, offset));
  return result;
}

Result foldConcat(nn::ConcatOp op, Operands operands) {
  Result result = allocateResult(op);
  if (!result)
    return std::nullopt;
  int64_t offset = 0, stride = result->strides()[op.getDim()];
  for (const TypedBuffer &operand : operands) {
    if (operand.size() == 0)
      continue;
    copyElements(operand, result->view(operand.shape(), result->strides(), offset));
    offset += operand.dim(op.getDim()) * stride;
  }
  return result;
}

} // namespace

void addMovement(Evaluators &evaluators) {
  evaluators.add<nn::IotaOp>(foldIota);
  evaluators.add<nn::ReshapeOp>(foldReshape);
  evaluators.add<nn::TransposeOp>(foldTranspose);
  evaluators.add<nn::BroadcastOp>(foldBroadcast);
  evaluators.add<nn::SliceOp>(foldSlice);
  evaluators.add<nn::PadOp>(foldPad);
  evaluators.add<nn::ConcatOp>(foldConcat);
}

} // namespace shale::folding
