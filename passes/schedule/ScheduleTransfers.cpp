//===- ScheduleTransfers.cpp - Schedules copies between host and device -===//
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/Builders.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_SCHEDULETRANSFERSPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

namespace {
struct Transfer {
  mem::StartOp start;
  mem::WaitOp wait;
  Operation *reader, *last; // the first and the last reader
};
} // namespace

static Transfer split(Operation *op) {
  OpBuilder builder(op);
  Value input = op->getOperand(0);
  auto pending = dist::PendingType::get(op->getContext(), cast<RankedTensorType>(input.getType()));
  auto start =
      mem::StartOp::create(builder, op->getLoc(), pending, input,
                           isa<mem::OffloadOp>(op) ? mem::Memory::Host : mem::Memory::Device);
  auto wait = mem::WaitOp::create(builder, op->getLoc(), input.getType(), start.getPending());
  start->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  wait->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op->getResult(0).replaceAllUsesWith(wait.getResult());
  op->erase();
  return {start, wait, nullptr, nullptr};
}

/// Returns the unit if the copy is a whole group of it that is read in place; else null.
static StringAttr wholeUnit(mem::WaitOp wait) {
  auto view = dyn_cast<dist::UnitViewOp>(*wait->user_begin());
  return view ? view.getUnitAttr().getAttr() : StringAttr();
}

static void moveAfterMaker(mem::StartOp start) {
  Operation *last = start.getInput().getDefiningOp();
  if (last && last->getNextNode() != start)
    start->moveAfter(last);
}

namespace {
/// A position in a block: in front of an op, or behind it.
struct Place {
  Operation *op;
  bool behind = false;

  /// Whether `other` is in front of the position.
  bool isBehind(Operation *other) const {
    return other->isBeforeInBlock(op) || (behind && other == op);
  }
};

/// A move that is decided. All moves of a loop are decided first: after a move, MLIR numbers the
/// ops of the whole block again for the next comparison. The decisions hold, since a loop compares
/// no op that it moves with another one; a start that reads a copy is compared where it was.
struct Move {
  Operation *op;
  Place place;

  void make() const {
    if (!place.behind)
      op->moveBefore(place.op);
    else if (place.op->getNextNode() != op)
      op->moveAfter(place.op);
  }
};
} // namespace

/// Decides to move the start to `place`, or behind the op that defines its operand if that comes
/// later.
static void startAt(mem::StartOp start, Place place, SmallVectorImpl<Move> &moves) {
  Operation *source = start.getInput().getDefiningOp();
  if (source && !place.isBehind(source))
    moves.push_back({start, {source, /*behind=*/true}});
  else if (!place.isBehind(start) && start != place.op)
    moves.push_back({start, place});
}

static bool isWantedLate(Transfer &transfer) {
  return transfer.reader->hasTrait<OpTrait::IsTerminator>() ||
         (transfer.start.getTarget() == mem::Memory::Host &&
          !nn::isInPhase(transfer.start, nn::Phase::Update));
}

/// Returns where copies for the first update start: at the last wait for a collective
/// before `place`, so that the exchange of the gradients' norm hides them.
static Operation *lead(Operation *place) {
  for (Operation *op = place; op; op = op->getPrevNode())
    if (isa<dist::WaitOp>(op))
      return op;
  return place;
}

/// Returns `place`, or the first later position from which at most `most` units are whole,
/// including this one.
static Place boundWhole(mem::WaitOp wait, ArrayRef<Transfer> before, Place place, int64_t most) {
  StringAttr unit = wholeUnit(wait);
  if (!unit)
    return place;
  for (;;) {
    llvm::SmallSetVector<StringAttr, 4> alive;
    Operation *firstEnd = nullptr;
    for (const Transfer &other : before) {
      StringAttr otherUnit = wholeUnit(other.wait);
      if (!otherUnit || otherUnit == unit || place.isBehind(other.last))
        continue;
      alive.insert(otherUnit);
      if (!firstEnd || other.last->isBeforeInBlock(firstEnd))
        firstEnd = other.last;
    }
    if (int64_t(alive.size()) < most || !firstEnd->isBeforeInBlock(wait))
      return place;
    place = {firstEnd, /*behind=*/true};
  }
}

/// Replaces every `mem.offload` and `mem.reload` by `mem.start` and `mem.wait`. A copy
/// that is read late (offloaded activations and gradients, new state copied to its home)
/// starts as soon as its operand is computed and is waited for when the next such copy
/// starts, so that at most one buffer waits to be freed. With `ahead`, a copy that is read
/// soon starts when the copies for the previous reader are waited for; copies for the
/// first update start while ranks exchange the gradients' norm. A copy of a whole unit
/// starts later if more than `mostWhole` units would be whole or in flight at once.
static void scheduleTransfers(Block &block, bool ahead, int64_t mostWhole) {
  SmallVector<Operation *> ops;
  // From the end: a copy that only an unread copy reads is unread, too.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isa<mem::OffloadOp, mem::ReloadOp>(op))
      continue;
    if (op.use_empty())
      op.erase();
    else
      ops.push_back(&op);
  }
  // All are split first: the reader of one may be another.
  SmallVector<Transfer> transfers, soon, late;
  for (Operation *op : llvm::reverse(ops))
    transfers.push_back(split(op));
  for (Transfer &transfer : transfers) {
    transfer.reader = firstReader(transfer.wait.getResult());
    transfer.last = lastReader(transfer.wait.getResult());
    (isWantedLate(transfer) ? late : soon).push_back(transfer);
  }
  auto before = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  for (Transfer &transfer : late)
    moveAfterMaker(transfer.start);
  llvm::stable_sort(late, [&](auto &a, auto &b) { return before(a.start, b.start); });
  SmallVector<Move> moves;
  auto makeMoves = [&] {
    for (const Move &move : moves)
      move.make();
    moves.clear();
  };
  for (auto [index, transfer] : llvm::enumerate(late)) {
    Operation *until = transfer.reader;
    if (index + 1 < late.size() && before(late[index + 1].start, until))
      until = late[index + 1].start;
    // Views of the copy are placed before its reader.
    for (Operation *user : transfer.wait->getUsers())
      if (before(user, until))
        until = user;
    moves.push_back({transfer.wait, {until}});
  }
  makeMoves();
  auto firstUser = [&](Transfer &transfer) {
    Operation *first = transfer.reader;
    for (Operation *user : transfer.wait->getUsers())
      if (before(user, first))
        first = user;
    return first;
  };
  for (Transfer &transfer : soon) {
    moves.push_back({transfer.wait, {firstUser(transfer)}});
    moves.push_back({transfer.start, {transfer.wait}});
  }
  makeMoves();
  if (!ahead)
    return;
  llvm::stable_sort(soon, [&](auto &a, auto &b) { return before(a.wait, b.wait); });
  // Copies for one reader start together, where those for the previous reader are
  // waited for.
  Operation *place = nullptr, *next = nullptr, *reader = nullptr;
  bool updating = false;
  for (auto [index, transfer] : llvm::enumerate(soon)) {
    if (transfer.reader != reader) {
      place = next ? next : transfer.wait;
      next = transfer.wait;
      reader = transfer.reader;
      if (!updating && nn::isInPhase(transfer.start, nn::Phase::Update)) {
        updating = true;
        place = lead(next);
      }
    }
    startAt(
        transfer.start,
        boundWhole(transfer.wait, ArrayRef<Transfer>(soon).take_front(index), {place}, mostWhole),
        moves);
  }
  makeMoves();
}

/// Emits a remark with the number of collectives and how many overlap with other work.
static void remarkOverlap(Block &block) {
  auto function = cast<func::FuncOp>(block.getParentOp());
  int64_t started = 0, overlapped = 0;
  for (auto start : function.getOps<dist::StartOp>()) {
    ++started;
    for (Operation *op = start->getNextNode(); op && op != start.getWait().getOperation();
         op = op->getNextNode())
      if (!isa<dist::StartOp, dist::WaitOp>(op) && !isView(op)) {
        ++overlapped;
        break;
      }
  }
  if (started)
    emitDecision(function.getLoc(), "schedule",
                 llvm::formatv("{0} collectives of @{1}, {2} of them with work between start and "
                               "wait",
                               started, function.getSymName(), overlapped)
                     .str());
}

namespace {
struct ScheduleTransfersPass
    : public shale::impl::ScheduleTransfersPassBase<ScheduleTransfersPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(checkGatherOptions(getOperation(), prefetch, maxGathersInFlight)) ||
        failed(forEachBody(getOperation(), [&](Block &block) {
          scheduleTransfers(block, prefetch > 0, maxGathersInFlight);
          remarkOverlap(block);
        })))
      signalPassFailure();
  }
};
} // namespace
