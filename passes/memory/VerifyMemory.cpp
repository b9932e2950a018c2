//===- VerifyMemory.cpp - Counts the gathers of each unit -----------------===//
#include "dialects/mem/Mem.h"
#include "passes/memory/Intervals.h"
#include "passes/memory/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "passes/memory/Passes.h.inc"

static LogicalResult verifyGathers(func::FuncOp function, int64_t bound) {
  UnitIntervals intervals(function, bound);
  llvm::MapVector<std::pair<StringAttr, int64_t>,
                  SmallVector<dist::UnitGatherOp>>
      gathers;
  for (auto gather : function.getOps<dist::UnitGatherOp>())
    gathers[{gather.getUnitAttr().getAttr(), gather.getGroup()}].push_back(
        gather);
  for (auto &[key, list] : gathers) {
    int64_t expected = 1;
    if (list.front()->hasAttr(mem::kRecomputeAttr)) {
      expected = 0;
      for (const Interval &interval : intervals.of(key.first))
        expected += llvm::any_of(list, [&](dist::UnitGatherOp gather) {
          return llvm::any_of(
              UnitIntervals::usesOf(gather), [&](OpOperand *use) {
                int64_t at = intervals.positionOf(use->getOwner());
                return interval.begin <= at && at <= interval.end;
              });
        });
    }
    if (static_cast<int64_t>(list.size()) != expected)
      return list.front().emitOpError("group ")
             << key.second << " of unit '" << key.first.getValue() << "' is gathered "
             << list.size() << " times in @" << function.getSymName()
             << ", expected " << expected;
  }
  return success();
}

namespace {
struct VerifyMemoryPass : impl::VerifyMemoryPassBase<VerifyMemoryPass> {
  using VerifyMemoryPassBase::VerifyMemoryPassBase;
  void runOnOperation() final {
    if (getOperation().isExternal() || !getOperation().getBody().hasOneBlock())
      return;
    if (failed(verifyGathers(getOperation(), maxGathersInFlight)))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
