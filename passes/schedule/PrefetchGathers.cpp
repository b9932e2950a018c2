//===- PrefetchGathers.cpp - Starts gathers ahead of use ----------------===//
#include "dialects/dist/Dist.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Gathers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"

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
/// One gather of a unit's group. All positions are those in the block before any op is moved.
struct Gather {
  dist::StartOp start;
  StringAttr unit;
  int64_t begin; ///< The gather starts in front of the op at this position.
  int64_t use, end;
  SmallVector<Operation *, 4> moved; ///< in their new order; empty: the gather stays
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

/// Collects the ops that compute the gather's shard from state (a barrier, a copy from the host, a
/// cast), last first. Returns false if the shard is computed otherwise.
static bool makersOf(dist::StartOp start, SmallVectorImpl<Operation *> &makers) {
  Operation *maker = start.getInput().getDefiningOp();
  while (maker && maker->getNumOperands() == 1 && maker->getResult(0).hasOneUse() &&
         wouldOpBeTriviallyDead(maker)) {
    makers.push_back(maker);
    maker = maker->getOperand(0).getDefiningOp();
  }
  return !maker;
}

/// Finds the place of each gather. Gathers start in the order of their first use.
static SmallVector<Gather> placeGathers(ArrayRef<Operation *> ops, int64_t prefetch, int64_t most) {
  DenseMap<Operation *, int64_t> positions;
  for (auto [position, op] : llvm::enumerate(ops))
    positions[op] = position;
  SmallVector<Gather> gathers;
  for (auto [at, op] : llvm::enumerate(ops)) {
    auto start = dyn_cast<dist::StartOp>(op);
    if (!start || !gatheredUnit(start))
      continue;
    int64_t stays = at;
    Gather gather{start,
                  gatheredUnit(start),
                  stays,
                  positions.lookup(start.getWait()),
                  positions.lookup(lastReader(wholeOf(start))),
                  {}};
    int64_t begin = earliestStart(gathers, gather, prefetch, most);
    if (!gathers.empty())
      begin = std::max(begin, gathers.back().begin + gathers.back().moved.empty());
    SmallVector<Operation *> makers;
    if (begin < stays && makersOf(start, makers)) {
      gather.begin = begin;
      for (Operation *maker : llvm::reverse(makers))
        if (positions.lookup(maker) >= begin)
          gather.moved.push_back(maker);
      gather.moved.push_back(start);
    }
    gathers.push_back(std::move(gather));
  }
  return gathers;
}

/// Starts gathers ahead of use. Assumes that each is at its use.
static void prefetchGathers(Block &block, int64_t prefetch, int64_t most) {
  SmallVector<Operation *> ops = llvm::map_to_vector(block, [](Operation &op) { return &op; });
  SmallVector<Gather> gathers = placeGathers(ops, prefetch, most);
  DenseSet<Operation *> moved;
  for (const Gather &gather : gathers)
    moved.insert(gather.moved.begin(), gather.moved.end());
  // The block is built again, op by op.
  auto next = gathers.begin();
  for (auto [position, op] : llvm::enumerate(ops)) {
    for (; next != gathers.end() && next->begin == int64_t(position); ++next)
      for (Operation *each : next->moved)
        each->moveBefore(&block, block.end());
    if (!moved.contains(op))
      op->moveBefore(&block, block.end());
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
