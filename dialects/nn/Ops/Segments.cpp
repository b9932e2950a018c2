//===- Segments.cpp - Reductions and broadcasts by segments ---------------===//
#include "dialects/nn/Ops/Segments.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale::nn;

Factors Factors::of(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  if (shape.size() < 2 || count == 0)
    return {1, count, 0};
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  return {count / (rows * columns), rows, columns};
}

int64_t FactoredRangeAttr::getCount() const {
  int64_t count = 1;
  for (int64_t size : getShape())
    if (size < 0 || llvm::MulOverflow(count, size, count) || count > INT64_MAX / 2)
      return -1;
  return count;
}

/// Checks the segments of a flat group. `values` has the values by segment, or by row and column.
static LogicalResult verifyPlaces(Operation *op, Value group, Value values, bool perSegment,
                                  Value offset, ArrayAttr segments) {
  RankedTensorType flat = tensorOf(group), type = tensorOf(values);
  if (flat.getRank() != 1 || type.getRank() != 1) // c1
    return op->emitOpError() << "needs 1-D tensors; got " << flat << " and " << type;
  int64_t end = 0, valuesEnd = 0;
  for (auto segment : segments.getAsRange<FactoredRangeAttr>()) {
    int64_t count = segment.getCount(), stop, valuesStop;
    if (count < 0 || segment.getOffset() < end || segment.getAt() < valuesEnd ||
        llvm::AddOverflow(segment.getOffset(), count, stop) ||
        llvm::AddOverflow(segment.getAt(), segment.getFactors().size(), valuesStop))
      return op->emitOpError() << "segments must ascend and not overlap; " << segment
                               << " begins before " << end << " or, by row and column, "
                               << valuesEnd;
    end = stop, valuesEnd = valuesStop;
  }
  if (!offset && end > flat.getNumElements())
    return op->emitOpError() << "segments end at " << end << ", beyond " << flat;
  if (!perSegment && valuesEnd > type.getNumElements())
    return op->emitOpError() << "segments end at " << valuesEnd
                             << " of the rows and columns, beyond " << type;
  if (perSegment && type.getNumElements() != int64_t(segments.size())) // c2
    return op->emitOpError() << "has " << segments.size() << " segments and " << type
                             << " with one element per segment";
  if (flat.getElementType() != type.getElementType()) // c3
    return op->emitOpError() << "the input must have the result's element type; got "
                             << op->getOperand(0).getType() << " and "
                             << op->getResult(0).getType();
  return success();
}

LogicalResult SegmentMeansOp::verify() {
  return verifyPlaces(*this, getInput(), getResult(), !getFactors(), getOffset(), getSegments());
}

LogicalResult SegmentBroadcastOp::verify() {
  if (getRows() && getColumns()) // segment_broadcast_c4
    return emitOpError() << "has values by row or by column, not both";
  return verifyPlaces(*this, getResult(), getInput(), isPerSegment(), getOffset(), getSegments());
}

int64_t SegmentMeansOp::getFlops() {
  return ((getFactors() ? 2 : 1) + (getSquares() ? 1 : 0)) * elements(getInput());
}
int64_t SegmentBroadcastOp::getFlops() { return elements(getResult()); }

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Segments.cpp.inc"

void shale::nn::registerSegmentsOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Segments.cpp.inc"
      >();
}
