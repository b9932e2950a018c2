//===- Schedule.cpp - Fix the order of ops --------------------------------===//
#include "passes/schedule/Passes.h"
#include "passes/schedule/Order.h"
#include "passes/schedule/Placement.h"
#include "passes/schedule/Reductions.h"
#include "passes/schedule/Transfers.h"
#include "dialects/mem/Mem.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

/// The unit that a started collective gathers, or null.
static StringAttr gatheredUnit(dist::StartOp start) {
  auto gather = dyn_cast<dist::UnitGatherOp>(start.getCollective().getOperation());
  return gather ? gather.getUnitAttr().getAttr() : StringAttr();
}

static int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      bytes += nn::tensorBytes(tensor);
  return bytes;
}

/// Whether the op is best placed just before its first user: it costs nothing,
/// or its result takes more memory than what it reads.
static bool standsAtUse(Operation *op) {
  if (auto placed = dyn_cast<PlacedAtUse>(op))
    return placed.isPlacedAtUse();
  if (isView(op))
    return true;
  return isMemoryEffectFree(op) && bytesOf(op->getResultTypes()) > bytesOf(op->getOperandTypes()) &&
         op->getNumRegions() == 0 && op->getNumOperands() <= 1;
}

static void splitCollectives(func::FuncOp function) {
  SmallVector<Collective> collectives;
  function.walk([&](Collective op) {
    if (!isa<dist::StartOp>(op->getParentOp()))
      collectives.push_back(op);
  });
  OpBuilder builder(function.getContext());
  for (Collective op : collectives)
    dist::splitCollective(builder, op);
}

static void eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Moves each op that stands at its use before the first of its users. What moves is collected by the op that stays and
/// that it ends up before, and moved at once: op by op, the block would be numbered anew again and again.
static void sinkToUses(Block &block) {
  SmallVector<Operation *> ops;
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : block) {
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
  DenseMap<Operation *, Operation *> stays; // for what moves
  DenseMap<Operation *, SmallVector<Operation *>> movedBefore;
  for (Operation *op : llvm::reverse(ops)) {
    if (op->hasTrait<OpTrait::IsTerminator>() || !standsAtUse(op))
      continue;
    Operation *first = nullptr;
    SmallPtrSet<Operation *, 4> users;
    for (Operation *user : op->getUsers()) {
      user = block.findAncestorOpInBlock(*user);
      users.insert(user);
      auto it = stays.find(user);
      Operation *staying = it == stays.end() ? user : it->second;
      if (!first || positions[staying] < positions[first])
        first = staying;
    }
    if (!first)
      continue;
    stays[op] = first;
    SmallVector<Operation *> &moved = movedBefore[first];
    moved.insert(llvm::find_if(moved, [&](Operation *other) { return users.contains(other); }), op);
  }
  for (auto &[first, moved] : movedBefore)
    for (Operation *op : moved)
      op->moveBefore(first);
}

namespace {
/// One gather of a unit's group over the positions of ops before any is moved.
struct Gather {
  dist::StartOp start;
  StringAttr unit;
  int64_t begin, use, end;
};
} // namespace

/// The last op that reads the value or a view of it.
static int64_t lastUse(Value value, const DenseMap<Operation *, int64_t> &positions) {
  int64_t last = 0;
  SmallVector<Value> values{value};
  while (!values.empty()) {
    for (Operation *user : values.pop_back_val().getUsers()) {
      last = std::max(last, positions.lookup(user));
      if (isView(user))
        values.append(user->result_begin(), user->result_end());
    }
  }
  return last;
}

/// The position from which `gather` may be on its way: at most `prefetch` other
/// units ahead of use and at most `most` units at once.
static int64_t earliestStart(ArrayRef<Gather> before, const Gather &gather, int64_t prefetch, int64_t most) {
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

/// What has to move with a gather: what makes its shard of state and does nothing else (a
/// barrier, a copy from the host, a cast), last first. False where the shard comes from elsewhere.
static bool makersOf(dist::StartOp start, SmallVectorImpl<Operation *> &makers) {
  Operation *maker = start.getInput().getDefiningOp();
  while (maker && maker->getNumOperands() == 1 && maker->getResult(0).hasOneUse() && wouldOpBeTriviallyDead(maker)) {
    makers.push_back(maker);
    maker = maker->getOperand(0).getDefiningOp();
  }
  return !maker;
}

/// Starts gathers ahead of use. Assumes that each stands at its use.
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
                  lastUse(start.getWait().getResult(), positions)};
    // The start itself is not counted: it moves.
    gather.begin = std::min(earliestStart(gathers, gather, prefetch, most), positions[op]);
    if (gather.begin < positions[op]) {
      Operation *place = ops[gather.begin];
      // What is wanted first starts first.
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

/// Collectives, and how many have something to run beside them.
static void remarkOverlap(func::FuncOp function) {
  int64_t started = 0, overlapped = 0;
  for (auto start : function.getOps<dist::StartOp>()) {
    ++started;
    for (Operation *op = start->getNextNode(); op && op != start.getWait().getOperation(); op = op->getNextNode())
      if (!isa<dist::StartOp, dist::WaitOp>(op) && !isView(op)) {
        ++overlapped;
        break;
      }
  }
  if (started)
    emitRemark(function.getLoc()) << "schedule: " << started << " collectives of @" << function.getSymName() << ", " << overlapped
                                  << " of them with work between start and wait";
}

namespace {
struct SchedulePass : public shale::impl::SchedulePassBase<SchedulePass> {
  using Base::Base;
  void runOnOperation() override {
    if (prefetch < 0 || maxGathersInFlight < 1 || bucketSize < 0) {
      getOperation().emitError("prefetch and bucket-size must be at least 0 and max-gathers-in-flight at least 1; got ")
          << prefetch << ", " << bucketSize << " and " << maxGathersInFlight;
      return signalPassFailure();
    }
    if (order != "overlap" && order != "memory") {
      getOperation().emitError("order must be overlap or memory; got '") << order << "'";
      return signalPassFailure();
    }
    auto strategy = getOperation()->getAttrOfType<StringAttr>(dist::kStrategyAttr);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (!function.getBody().hasOneBlock()) {
        function.emitOpError("must have one block to be scheduled");
        return signalPassFailure();
      }
      Block &block = function.front();
      splitCollectives(function);
      eraseUnused(block);
      sinkToUses(block);
      delayMakers(block);
      hoistReductions(block);
      sinkToUses(block); // what is read later than it was
      bool atEnd = strategy && strategy.getValue() == "optimizer";
      scheduleReductions(block, bucketSize, atEnd, /*oneAtATime=*/order == "memory");
      prefetchGathers(block, prefetch, maxGathersInFlight);
      scheduleTransfers(block, prefetch > 0, maxGathersInFlight);
      remarkOverlap(function);
    }
  }
};
} // namespace
