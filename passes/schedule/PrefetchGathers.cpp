//===- PrefetchGathers.cpp - Starts gathers ahead of use ----------------===//
#include "dialects/dist/Dist.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Gathers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_PREFETCHGATHERSPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

/// Returns the unit that a started collective gathers, or null.
static StringAttr gatheredUnit(dist::StartOp start) {
  auto gather = dyn_cast<dist::UnitGatherOp>(start.getCollective().getOperation());
  return gather ? gather.getUnitAttr().getAttr() : StringAttr();
}

namespace {
/// One gather of a unit's group. Positions are those of ops before any is moved.
struct Gather {
  dist::StartOp start;
  StringAttr unit;
  int64_t begin, use, end;
};
} // namespace

/// Returns the first position at which `gather` may be in flight: at most `prefetch`
/// other units ahead of use and at most `most` units at once.
static int64_t earliestStart(ArrayRef<Gather> before, const Gather &gather, int64_t prefetch,
                             int64_t most) {
  if (prefetch <= 0)
    return gather.use;
  llvm::SmallSetVector<StringAttr, 4> ahead;
  int64_t earliest = 0;
  for (const Gather &other : llvm::reverse(before)) {
    if (other.unit == gather.unit)
      continue;
    ahead.insert(other.unit);
    if (int64_t(ahead.size()) > prefetch)
      break;
    earliest = other.use + 1;
  }
  if (int64_t(ahead.size()) < prefetch)
    earliest = 0;
  for (int64_t at = gather.use - 1; at >= earliest; --at) {
    llvm::SmallSetVector<StringAttr, 4> alive;
    for (const Gather &other : before)
      if (other.begin <= at && at <= other.end && other.unit != gather.unit)
        alive.insert(other.unit);
    if (int64_t(alive.size()) >= most)
      return at + 1;
  }
  return earliest;
}

/// Collects the ops that move with a gather, last first: those that only compute its shard from
/// state (a barrier, a copy from the host, a cast). Returns false if the shard is computed
/// otherwise.
static bool makersOf(dist::StartOp start, SmallVectorImpl<Operation *> &makers) {
  Operation *maker = start.getInput().getDefiningOp();
  while (maker && maker->getNumOperands() == 1 && maker->getResult(0).hasOneUse() &&
         wouldOpBeTriviallyDead(maker)) {
    makers.push_back(maker);
    maker = maker->getOperand(0).getDefiningOp();
  }
  return !maker;
}

/// Starts gathers ahead of use. Assumes that each is at its use.
static void prefetchGathers(Block &block, int64_t prefetch, int64_t most) {
  DenseMap<Operation *, int64_t> positions;
  SmallVector<Operation *> ops;
  SmallVector<Gather> gathers;
  for (Operation &op : block) {
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
  for (Operation *op : ops) {
    auto start = dyn_cast<dist::StartOp>(op);
    if (!start || !gatheredUnit(start))
      continue;
    Gather gather{start, gatheredUnit(start), 0, positions[start.getWait()],
                  positions.lookup(lastReader(wholeOf(start)))};
    // The start itself is not counted: it moves.
    gather.begin = std::min(earliestStart(gathers, gather, prefetch, most), positions[op]);
    if (gather.begin < positions[op]) {
      Operation *place = ops[gather.begin];
      // Gathers start in the order of their first use.
      if (!gathers.empty() && !gathers.back().start->isBeforeInBlock(place))
        place = gathers.back().start->getNextNode();
      SmallVector<Operation *> makers;
      if (makersOf(start, makers)) {
        while (llvm::is_contained(makers, place))
          place = place->getNextNode();
        for (Operation *maker : llvm::reverse(makers))
          if (maker != place && place->isBeforeInBlock(maker))
            maker->moveBefore(place);
        if (place != start.getOperation())
          start->moveBefore(place);
      }
    }
    gathers.push_back(gather);
  }
}

namespace {
struct PrefetchGathersPass : public shale::impl::PrefetchGathersPassBase<PrefetchGathersPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(checkGatherOptions(getOperation(), prefetch, maxGathersInFlight)) ||
        failed(forEachBody(getOperation(), [&](Block &block) {
          prefetchGathers(block, prefetch, maxGathersInFlight);
        })))
      signalPassFailure();
  }
};
} // namespace
