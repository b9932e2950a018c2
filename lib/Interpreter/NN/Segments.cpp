//===- Segments.cpp - Reductions and broadcasts by segments ---------------===//
//
// Element by element, from the descriptions of the ops.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Segments.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;

namespace shale::interp {

namespace {

/// A segment of a flat group, of which a tensor of `size` elements has those from `shift`.
class Segment {
public:
  Segment(nn::FactoredRangeAttr range, int64_t shift, int64_t size) : range(range) {
    ArrayRef<int64_t> shape = range.getShape();
    count = range.getCount();
    factored = shape.size() > 1;
    if (factored) {
      columns = shape.back();
      rows = shape[shape.size() - 2];
    }
    begin = std::max<int64_t>(0, shift - range.getOffset());
    end = std::min(count, shift + size - range.getOffset());
    local = range.getOffset() - shift;
  }
  /// Calls fn(element of the segment, its place in the tensor).
  template <typename Fn> void each(Fn fn) const {
    for (int64_t i = begin; i < end; ++i)
      fn(i, i + local);
  }
  int64_t row(int64_t i) const { return range.getAt() + (factored ? i / columns : i); }
  int64_t column(int64_t i) const {
    return range.getAt() + count / columns + i / (rows * columns) * columns + i % columns;
  }

  nn::FactoredRangeAttr range;
  int64_t count, rows = 1, columns = 1, begin, end, local;
  bool factored;
};

/// Calls fn(number, segment) for each segment. `size` is the number of elements of the group, or of
/// its slice.
template <typename Op, typename Fn> void forEachSegment(Op op, Call &call, int64_t size, Fn fn) {
  int64_t shift = op.getOffset() ? call.operands.back().ints()[0] : 0;
  for (auto [i, range] :
       llvm::enumerate(op.getSegments().template getAsRange<nn::FactoredRangeAttr>()))
    fn(i, Segment(range, shift, size));
}

LogicalResult evaluateMeans(nn::SegmentMeansOp op, Call &call) {
  const double *input = call.operand(0).floats();
  double *result = call.result().mutableFloats();
  std::fill_n(result, call.result().size(), 0);
  forEachSegment(op, call, call.operand(0).size(), [&](int64_t number, const Segment &segment) {
    segment.each([&](int64_t i, int64_t at) {
      double x = op.getSquares() ? input[at] * input[at] : input[at];
      if (!op.getFactors()) {
        result[number] += x / segment.count;
        return;
      }
      result[segment.row(i)] += x / segment.columns;
      if (segment.factored)
        result[segment.column(i)] += x / segment.rows;
    });
  });
  return success();
}

LogicalResult evaluateBroadcast(nn::SegmentBroadcastOp op, Call &call) {
  const double *input = call.operand(0).floats();
  double *result = call.result().mutableFloats();
  int64_t size = call.result().size();
  std::fill_n(result, size, 0);
  forEachSegment(op, call, size, [&](int64_t number, const Segment &segment) {
    segment.each([&](int64_t i, int64_t at) {
      if (op.getRows())
        result[at] = input[segment.row(i)];
      else if (op.getColumns())
        result[at] = segment.factored ? input[segment.column(i)] : 1;
      else
        result[at] = input[number];
    });
  });
  return success();
}

} // namespace

void registerSegments(Registry &registry) {
  registry.add<nn::SegmentMeansOp>(evaluateMeans);
  registry.add<nn::SegmentBroadcastOp>(evaluateBroadcast);
}

} // namespace shale::interp
