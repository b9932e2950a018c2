//===- SegmentForm.cpp - Kernels that visit segments ----------------------===//
#include "lib/Codegen/SegmentForm.h"

using namespace mlir;
using namespace shale;

FailureOr<SegmentForm> shale::findSegmentForm(Region &body) {
  SegmentForm form;
  Operation *yield = body.front().getTerminator();
  for (auto op : body.getOps<nn::SegmentMeansOp>()) {
    if (form.means || yield->getNumOperands() != 1 || yield->getOperand(0) != op.getResult())
      return op.emitOpError("must compute the only output of its kernel");
    form.means = op;
    form.kind = op.getFactors() ? SegmentForm::FactorMeans : SegmentForm::SegmentMeans;
    form.segments = op.getSegments();
    form.offset = op.getOffset();
    form.count = nn::elements(op.getInput());
  }
  for (auto op : body.getOps<nn::SegmentBroadcastOp>())
    form.byRow |= !op.isPerSegment();
  if (!form.means && !form.byRow)
    return form;
  if (form.kind == SegmentForm::FactorMeans && form.byRow)
    return form.means.emitOpError("cannot be in a kernel with values by row and column");
  for (auto op : body.getOps<nn::SegmentBroadcastOp>()) {
    if (!form.segments) {
      form.kind = SegmentForm::Elements;
      form.segments = op.getSegments();
      form.offset = op.getOffset();
      form.count = nn::elements(op.getResult());
    }
    if (op.getSegments() != form.segments || op.getOffset() != form.offset ||
        nn::elements(op.getResult()) != form.count)
      return op.emitOpError("is on another group than the rest of its kernel");
  }
  auto fits = [&](Value value) { return form.means || nn::elements(value) == form.count; };
  if (!llvm::all_of(yield->getOperands(), fits))
    return yield->emitOpError("of a kernel that visits segments has an output of another size");
  for (Operation &op : body.front().without_terminator())
    for (Type type : op.getOperandTypes())
      if (getElementTypeOrSelf(type).isF64())
        return op.emitOpError("in f64 has no kernel that visits segments");
  return form;
}

SegmentTable::SegmentTable(const SegmentForm &form) {
  SmallVector<int64_t> numbers;
  bool gaps = form.kind == SegmentForm::Elements;
  int64_t end = 0;
  auto gap = [&](int64_t count) {
    if (gaps && count > 0)
      numbers.append({end, count, 0, 0, 0, kGap, 0});
  };
  for (auto [i, range] : llvm::enumerate(form.segments.getAsRange<nn::FactoredRangeAttr>())) {
    nn::Factors shape = range.getFactors();
    gap(range.getOffset() - end);
    numbers.append({range.getOffset(), range.getCount(), range.getAt(), shape.matrices, shape.rows,
                    shape.columns, int64_t(i)});
    end = range.getOffset() + range.getCount();
    largest = std::max({largest, end, range.getAt() + shape.size()});
  }
  // A slice may be after the segments.
  constexpr int64_t unbounded = int64_t(1) << 48;
  gap(form.offset ? unbounded : form.count - end);
  largest = std::max(largest, end) + form.count;
  entries = numbers.size() / kFields;
  if (numbers.empty())
    numbers.append(kFields, 0); // constants are not empty
  values = DenseElementsAttr::get(
      RankedTensorType::get({int64_t(numbers.size())},
                            IntegerType::get(form.segments.getContext(), 64)),
      ArrayRef(numbers));
}

Value shale::emitAtPlace(nn::SegmentBroadcastOp op, ElementEmitter &emitter,
                         const SegmentPlace &place) {
  auto constant = [&](double value) {
    return constantLike(emitter.builder(), op.getLoc(), op.getType().getElementType(), value);
  };
  if (place.kind == SegmentPlace::Outside)
    return constant(0);
  if (op.getColumns() && place.kind == SegmentPlace::Vector)
    return constant(1);
  return emitter.emit(op.getInput(), op.isPerSegment() ? place.number
                                     : op.getRows()    ? place.row
                                                       : place.column);
}
