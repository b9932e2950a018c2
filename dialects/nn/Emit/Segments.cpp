//===- Segments.cpp - Elements of values per segment ----------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Compares the element's place in the group with the bounds of all segments, in order: elements
/// are lanes of a vector, which may be in different segments, and units have tens of parameters.
Value SegmentBroadcastOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = getLoc();
  auto ranges = getSegments().getAsRange<FactoredRangeAttr>();
  int64_t size = elements(getResult()), last = 0;
  for (FactoredRangeAttr range : ranges)
    last = range.getOffset() + range.getCount();
  // Twice as many lanes, unless the group is large. Slices have as many elements as a part of it.
  Type integer = std::max(last, size) < INT32_MAX / 2 ? b.getI32Type() : b.getI64Type();
  Value place = emitter.number(index, integer);
  if (getOffset()) {
    Value first = emitter.emit(getOffset(), LinearIndex());
    if (!first)
      return nullptr;
    if (first.getType() != integer)
      first = arith::TruncIOp::create(b, loc, integer, first);
    Value both[] = {place, first};
    matchLanes(b, loc, both);
    place = arith::AddIOp::create(b, loc, both[0], both[1]);
  }
  Value nothing = constantLike(b, loc, getType().getElementType(), 0), chosen = nothing;
  auto from = [&](int64_t begin, Value value) {
    Value bound = constantLike(b, loc, place.getType(), begin);
    Value beyond = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, place, bound);
    chosen = arith::SelectOp::create(b, loc, beyond, emitter.widen(index, value), chosen);
  };
  chosen = emitter.widen(index, nothing);
  int64_t end = 0;
  for (auto [i, range] : llvm::enumerate(ranges)) {
    if (range.getCount() == 0)
      continue;
    LinearIndex number;
    number.constant = i;
    Value value = emitter.emit(getInput(), number);
    if (!value)
      return nullptr;
    if (range.getOffset() != end)
      from(end, nothing);
    from(range.getOffset(), value);
    end = range.getOffset() + range.getCount();
  }
  if (getOffset() || end < size)
    from(end, nothing);
  return chosen;
}
