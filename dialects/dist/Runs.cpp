//===- Runs.cpp - Segments that follow one another -------------------------===//
#include "dialects/dist/Runs.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

SmallVector<SegmentAttr, 3> shale::dist::findRun(GroupAttr group, StringRef param,
                                                 ArrayRef<int64_t> shape) {
  SmallVector<SegmentAttr, 3> run;
  int64_t rows = 0, end = 0;
  for (auto segment : group.getSegments().getAsRange<SegmentAttr>()) {
    ArrayRef<int64_t> own = segment.getShape();
    if (run.empty()) {
      if (segment.getParam().getValue() != param)
        continue;
      if (own == shape)
        return {segment};
    } else if (segment.getOffset() != end) {
      return {};
    }
    if (own.empty() || own.size() != shape.size() || own.drop_front() != shape.drop_front() ||
        own.front() > shape.front() - rows)
      return {};
    run.push_back(segment);
    rows += own.front(), end = segment.getOffset() + segment.getCount();
    if (rows == shape.front())
      return run;
  }
  return {};
}

/// Returns whether the run of `shape` that begins with `first` has `param`.
template <typename OpT>
static bool hasParameter(OpT op, StringRef first, Value value, StringRef param) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<UnitOp>(op, op.getUnitAttr());
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return llvm::any_of(findRun(unit.getGroup(op.getGroup()), first, shape),
                      [&](SegmentAttr segment) { return segment.getParam().getValue() == param; });
}

Value shale::dist::findInput(UnitPackOp pack, StringRef param) {
  for (auto [name, input] :
       llvm::zip(pack.getParams().getAsRange<FlatSymbolRefAttr>(), pack.getInputs()))
    if (::hasParameter(pack, name.getValue(), input, param))
      return input;
  return {};
}

bool shale::dist::hasParameter(UnitViewOp view, StringRef param) {
  return ::hasParameter(view, view.getParam(), view.getResult(), param);
}
