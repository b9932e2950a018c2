//===- VerifyScheduled.cpp - Exit contract of schedule --------------------===//
#include "dialects/mem/Mem.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Gathers.h"
#include "lib/Analysis/UnitsAtOnce.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Passes.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

static LogicalResult verifyStarted(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) {
    if (isa<mem::OffloadOp, mem::ReloadOp>(op)) {
      op->emitOpError("is not scheduled: it must be a mem.start and a mem.wait");
      return WalkResult::interrupt();
    }
    if (!isa<CollectiveOpInterface>(op) || isa<dist::StartOp>(op->getParentOp()))
      return WalkResult::advance();
    op->emitOpError("is not scheduled: it must be inside a dist.start");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

//===- Units that are whole -----------------------------------------------===//

/// Returns the value that an op brings if it starts the gather or the copy of a whole group of a
/// unit, and the unit; else null.
static std::pair<Value, StringAttr> broughtBy(Operation *op) {
  if (auto start = dyn_cast<dist::StartOp>(op)) {
    auto gather = dyn_cast<dist::UnitGatherOp>(start.getCollective().getOperation());
    if (gather)
      return {wholeOf(start), gather.getUnitAttr().getAttr()};
  }
  auto copy = dyn_cast<mem::StartOp>(op);
  if (copy && copy.getTarget() == mem::Memory::Device && copy->hasOneUse()) {
    Value copied = copy->user_begin()->getResult(0);
    for (Operation *user : copied.getUsers())
      if (auto view = dyn_cast<dist::UnitViewOp>(user))
        return {copied, view.getUnitAttr().getAttr()};
  }
  return {};
}

/// Fails if a unit is gathered or copied ahead of its use where more than `most` units are whole or
/// in flight. More may be so only if all are in use: that depends on the ops, not on their order.
static LogicalResult verifyUnitsAtOnce(Block &block, int64_t most) {
  DenseMap<Operation *, int64_t> positions;
  int64_t count = 0;
  for (Operation &op : block)
    positions[&op] = count++;
  SmallVector<WholeUnit> wholes;
  SmallVector<Operation *> starts;
  llvm::MapVector<int64_t, Operation *> readers; // first and last ones
  for (Operation &op : block) {
    auto [value, unit] = broughtBy(&op);
    if (!value || !firstReader(value))
      continue;
    starts.push_back(&op);
    wholes.push_back(
        {unit, positions[&op], positions[firstReader(value)], positions[lastReader(value)]});
    readers[wholes.back().firstRead] = firstReader(value);
    readers[wholes.back().lastRead] = lastReader(value);
  }
  // Units are released at readers only: most are whole at one.
  for (auto [at, reader] : readers) {
    UnitsAtOnce units = unitsAt(wholes, at);
    if (units.all <= most || units.all == units.inUse)
      continue;
    InFlightDiagnostic diag = starts[*units.ahead]->emitOpError("brings unit '")
                              << wholes[*units.ahead].unit << "' too early: " << units.all
                              << " units are whole or in flight at once, of which " << units.inUse
                              << " are in use; at most " << most
                              << " may be (max-gathers-in-flight)";
    diag.attachNote(reader->getLoc()) << "at this op";
    return diag;
  }
  return success();
}

namespace {
struct VerifyScheduledPass : public shale::impl::VerifyScheduledPassBase<VerifyScheduledPass> {
  using Base::Base;
  void runOnOperation() override {
    LogicalResult units = success();
    if (failed(verifyStarted(getOperation())) ||
        failed(forEachBody(getOperation(),
                           [&](Block &block) {
                             if (succeeded(units))
                               units = verifyUnitsAtOnce(block, maxGathersInFlight);
                           })) ||
        failed(units))
      signalPassFailure();
  }
};
} // namespace
