//===- Segments.cpp - Elements of values by segment -----------------------===//
#include "dialects/nn/Ops/Segments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

Access SegmentMeansOp::getAccess(unsigned number) {
  return number == 0 ? Access::Folds : Access::Any;
}

/// Kernels that visit segments (lib/Codegen/SegmentForm.h) add up the elements.
Value SegmentMeansOp::emitAt(ElementEmitter &, const LinearIndex &) {
  emitOpError("needs a kernel that visits segments");
  return nullptr;
}

namespace {

/// Emits an element of a broadcast outside of a kernel that visits segments. The element's place in
/// the group is compared with the bounds of all segments, in order: elements are lanes of a vector,
/// which may be in different segments, and units have tens of parameters.
class ByBounds {
public:
  ByBounds(SegmentBroadcastOp op, ElementEmitter &emitter, const LinearIndex &index)
      : op(op), emitter(emitter), index(index), b(emitter.builder()), loc(op.getLoc()) {}

  Value emit() {
    if (!emitPlace())
      return nullptr;
    Value nothing = constantLike(b, loc, op.getType().getElementType(), 0);
    chosen = emitter.widen(index, nothing);
    int64_t end = 0;
    for (auto [i, range] : llvm::enumerate(op.getSegments().getAsRange<FactoredRangeAttr>())) {
      if (range.getCount() == 0)
        continue;
      Value value = valueIn(range, i);
      if (!value)
        return nullptr;
      if (range.getOffset() != end)
        from(end, nothing);
      from(range.getOffset(), value);
      end = range.getOffset() + range.getCount();
    }
    if (op.getOffset() || end < elements(op.getResult()))
      from(end, nothing);
    return chosen;
  }

private:
  /// Sets `place` to the element of the group.
  bool emitPlace() {
    int64_t size = elements(op.getResult()), last = 0;
    for (auto range : op.getSegments().getAsRange<FactoredRangeAttr>())
      last = range.getOffset() + range.getCount();
    // Twice as many lanes, unless the group is large. Slices have as many elements as a part of it.
    Type integer = std::max(last, size) < INT32_MAX / 2 ? b.getI32Type() : b.getI64Type();
    place = emitter.number(index, integer);
    if (!op.getOffset())
      return true;
    Value first = emitter.emit(op.getOffset(), LinearIndex());
    if (!first)
      return false;
    if (first.getType() != integer)
      first = arith::TruncIOp::create(b, loc, integer, first);
    Value both[] = {place, first};
    matchLanes(b, loc, both);
    place = arith::AddIOp::create(b, loc, both[0], both[1]);
    return true;
  }

  /// Chooses `value` from an element of the group on.
  void from(int64_t begin, Value value) {
    Value bound = constantLike(b, loc, place.getType(), begin);
    Value beyond = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, place, bound);
    chosen = arith::SelectOp::create(b, loc, beyond, emitter.widen(index, value), chosen);
  }

  /// Returns the value of the element if it is in a segment.
  Value valueIn(FactoredRangeAttr range, int64_t number) {
    LinearIndex at;
    at.constant = number;
    if (op.isPerSegment())
      return emitter.emit(op.getInput(), at);
    Factors shape = range.getFactors();
    if (op.getColumns() && !shape.isMatrix())
      return constantLike(b, loc, op.getType().getElementType(), 1);
    auto constant = [&](int64_t value) { return constantLike(b, loc, place.getType(), value); };
    Value inside = arith::SubIOp::create(b, loc, place, constant(range.getOffset())),
          found = inside;
    int64_t begin = range.getAt();
    if (shape.isMatrix() && op.getRows())
      found = arith::DivSIOp::create(b, loc, inside, constant(shape.columns));
    if (shape.isMatrix() && op.getColumns()) {
      begin += shape.matrices * shape.rows;
      Value matrix = arith::DivSIOp::create(b, loc, inside, constant(shape.rows * shape.columns));
      Value column = arith::RemSIOp::create(b, loc, inside, constant(shape.columns));
      found = arith::AddIOp::create(
          b, loc, arith::MulIOp::create(b, loc, matrix, constant(shape.columns)), column);
    }
    found = arith::AddIOp::create(b, loc, found, constant(begin));
    Value exists;
    if (!emitter.runtimeDim(found, elements(op.getInput()), at, exists))
      return nullptr;
    return emitter.emit(op.getInput(), at);
  }

  SegmentBroadcastOp op;
  ElementEmitter &emitter;
  const LinearIndex &index;
  OpBuilder &b;
  Location loc;
  Value place, chosen;
};

} // namespace

Value SegmentBroadcastOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  return ByBounds(*this, emitter, index).emit();
}
