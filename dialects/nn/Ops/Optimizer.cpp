//===- Optimizer.cpp - Parameter updates ----------------------------------===//
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult shale::nn::verifySegments(Operation *op, Type param, ArrayAttr segments,
                                        Value offset) { // c1, c2 of updates
  if (!segments) {
    if (offset)
      return op->emitOpError() << "'offset' needs 'segments'";
    return success();
  }
  auto type = cast<RankedTensorType>(param);
  if (type.getRank() != 1)
    return op->emitOpError() << "'segments' needs 1-D operands; got " << type;
  int64_t end = 0;
  for (auto segment : segments.getAsRange<UpdateRangeAttr>()) {
    if (segment.getOffset() < end || segment.getCount() < 0 ||
        segment.getCount() > INT64_MAX - segment.getOffset())
      return op->emitOpError() << "segments must ascend and not overlap; " << segment
                               << " begins before " << end;
    end = segment.getOffset() + segment.getCount();
  }
  if (!offset && end > type.getNumElements())
    return op->emitOpError() << "segments end at " << end << ", beyond " << type;
  return success();
}

LogicalResult SumSquaresOp::verify() {
  if (getInputs().empty()) // sum_squares_c1
    return emitOpError() << "needs at least one operand";
  for (Type type : getInputs().getTypes())
    if (Type element = cast<RankedTensorType>(type).getElementType();
        element != getType().getElementType() &&
        shale::accumulatorType(element) != getType().getElementType())
      return emitOpError() << "operands must have the result's element type; got " << type;
  return success();
}

int64_t SumSquaresOp::getFlops() {
  int64_t flops = 0;
  for (Type type : getInputs().getTypes())
    flops += 2 * cast<RankedTensorType>(type).getNumElements();
  return flops;
}

LogicalResult AccumulateOp::verify() {
  if (getInto() && getInto().getType() != getType()) // accumulate_c1
    return emitOpError() << "adds " << getType() << " to " << getInto().getType();
  return success();
}
