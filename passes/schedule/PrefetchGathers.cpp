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

namespace {
/// One gather of a unit's group. All positions are those in the block before any op is moved.
struct Gather {
  dist::StartOp start;
  StringAttr unit, axis;
  int64_t group, begin; ///< The gather starts in front of the op at this position.
  int64_t use, end;
  SmallVector<Operation *, 4> moved; ///< in their new order; empty: the gather stays
  bool isJoined = false;             ///< whether it is one exchange with the gather before it

  /// Whether another group of the same unit and axis is used while this one is whole.
  bool isUsedWith(const Gather &other) const {
    return unit == other.unit && axis == other.axis && group != other.group && other.use <= end;
  }
};
} // namespace

/// Returns the gather that an op starts, if it is one of a unit.
static std::optional<Gather> gatherOf(Operation *op) {
  auto start = dyn_cast<dist::StartOp>(op);
  auto gather =
      start ? dyn_cast<dist::UnitGatherOp>(start.getCollective().getOperation()) : nullptr;
  if (!gather)
    return std::nullopt;
  return Gather{start,
                gather.getUnitAttr().getAttr(),
                gather.getAxisAttr(),
                int64_t(gather.getGroup()),
                0,
                0,
                0,
                {}};
}

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

/// Finds the place of each gather. Gathers start in the order of their first use; those of groups
/// of a unit that are used together start together.
static SmallVector<Gather> placeGathers(ArrayRef<Operation *> ops, int64_t prefetch, int64_t most) {
  DenseMap<Operation *, int64_t> positions;
  for (auto [position, op] : llvm::enumerate(ops))
    positions[op] = position;
  SmallVector<Gather> gathers;
  for (auto [at, op] : llvm::enumerate(ops)) {
    std::optional<Gather> found = gatherOf(op);
    if (!found)
      continue;
    Gather gather = std::move(*found);
    dist::StartOp start = gather.start;
    int64_t stays = at;
    gather.begin = stays;
    gather.use = positions.lookup(start.getWait());
    gather.end = positions.lookup(lastReader(wholeOf(start)));
    int64_t begin = earliestStart(gathers, gather, prefetch, most);
    bool mayJoin = false;
    if (!gathers.empty()) {
      const Gather &last = gathers.back();
      int64_t next = last.begin + last.moved.empty();
      mayJoin = last.isUsedWith(gather);
      begin = mayJoin ? next : std::max(begin, next);
    }
    SmallVector<Operation *> makers;
    if (begin < stays && makersOf(start, makers)) {
      gather.begin = begin;
      for (Operation *maker : llvm::reverse(makers))
        if (positions.lookup(maker) >= begin)
          gather.moved.push_back(maker);
      gather.moved.push_back(start);
    }
    gather.isJoined = mayJoin && gather.begin == begin;
    gathers.push_back(std::move(gather));
  }
  return gathers;
}

/// Marks the gathers that start together as buckets.
static void formBuckets(Block &block, MutableArrayRef<Gather> gathers) {
  int64_t number = -1;
  for (auto start : block.getOps<dist::StartOp>())
    if (auto bucket = start->getAttrOfType<IntegerAttr>(dist::kBucketAttr))
      number = std::max(number, bucket.getInt());
  for (size_t i = 1; i < gathers.size(); ++i) {
    if (!gathers[i].isJoined)
      continue;
    number += !gathers[i - 1].isJoined;
    auto bucket = Builder(block.getParentOp()->getContext()).getI64IntegerAttr(number);
    gathers[i - 1].start->setAttr(dist::kBucketAttr, bucket);
    gathers[i].start->setAttr(dist::kBucketAttr, bucket);
  }
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
  formBuckets(block, gathers);
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
