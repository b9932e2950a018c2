//===- Intervals.cpp - When each unit is used -----------------------------===//
#include "passes/memory/Intervals.h"

using namespace mlir;

namespace shale {

SmallVector<OpOperand *> UnitIntervals::usesOf(dist::UnitGatherOp gather) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : gather.getResult().getUses()) {
    if (auto view = dyn_cast<dist::UnitViewOp>(use.getOwner()))
      for (OpOperand &viewUse : view.getResult().getUses())
        uses.push_back(&viewUse);
    else
      uses.push_back(&use);
  }
  llvm::stable_sort(uses, [](OpOperand *a, OpOperand *b) {
    return a->getOwner() != b->getOwner() && a->getOwner()->isBeforeInBlock(b->getOwner());
  });
  return uses;
}

static UnitIntervals::Uses usesOfGathers(func::FuncOp function) {
  UnitIntervals::Uses uses;
  for (auto gather : function.getOps<dist::UnitGatherOp>())
    for (OpOperand *use : UnitIntervals::usesOf(gather))
      uses.emplace_back(gather.getUnitAttr().getAttr(), use);
  return uses;
}

UnitIntervals::UnitIntervals(func::FuncOp function, int64_t bound)
    : UnitIntervals(function, usesOfGathers(function), bound) {}

UnitIntervals::UnitIntervals(func::FuncOp function, const Uses &readers, int64_t bound) {
  SmallVector<std::pair<int64_t, StringAttr>> uses;
  int64_t position = 0;
  for (Operation &op : function.getBody().front())
    positions[&op] = position++;
  for (auto [unit, use] : readers)
    uses.emplace_back(positions.lookup(use->getOwner()), unit);
  llvm::stable_sort(uses, [](auto &a, auto &b) { return a.first < b.first; });
  cut(uses);
  merge(bound);
}

/// Begins a new interval at a use if an op has read another unit since the last use.
void UnitIntervals::cut(ArrayRef<std::pair<int64_t, StringAttr>> uses) {
  for (auto [position, unit] : uses) {
    SmallVector<Interval> &list = intervals[unit];
    bool continues = !list.empty();
    if (continues)
      for (auto [other, otherUnit] : uses)
        if (otherUnit != unit && other > list.back().end && other < position)
          continues = false;
    if (continues)
      list.back().end = std::max(list.back().end, position);
    else
      list.push_back({position, position});
  }
}

int64_t UnitIntervals::foreignIntervals(StringAttr unit, int64_t after, int64_t before) {
  int64_t count = 0;
  for (auto &[other, list] : intervals)
    if (other != unit)
      for (const Interval &interval : list)
        count += interval.end > after && interval.begin < before;
  return count;
}

/// Returns the largest number of other units that are whole at one time between two
/// positions. Units become whole where an interval begins, so only these are checked.
int64_t UnitIntervals::mostWhole(StringAttr unit, int64_t after, int64_t before) {
  int64_t most = 0;
  auto countAt = [&](int64_t position) {
    int64_t count = 0;
    for (auto &[other, list] : intervals)
      count += other != unit && llvm::any_of(list, [&](const Interval &i) {
                 return i.begin <= position && position <= i.end;
               });
    return count;
  };
  for (auto &[other, list] : intervals)
    for (const Interval &interval : list)
      if (interval.begin > after && interval.begin < before)
        most = std::max(most, countAt(interval.begin));
  return std::max(most, countAt(after + 1));
}

/// Merges neighbouring intervals if the bound allows it.
void UnitIntervals::merge(int64_t bound) {
  for (auto &[unit, list] : intervals)
    for (size_t i = 0; i + 1 < list.size();) {
      int64_t after = list[i].end, before = list[i + 1].begin;
      if (foreignIntervals(unit, after, before) == 1 &&
          mostWhole(unit, after, before) + 1 <= bound) {
        list[i].end = list[i + 1].end;
        list.erase(list.begin() + i + 1);
      } else {
        ++i;
      }
    }
}

} // namespace shale
