//===- Transfers.cpp - When copies between two memories run ---------------===//
#include "passes/schedule/Transfers.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;

namespace {
struct Transfer {
  mem::StartOp start;
  mem::WaitOp wait;
  Operation *reader, *last; // the first and the last
};
} // namespace

static Transfer split(Operation *op) {
  OpBuilder builder(op);
  Value input = op->getOperand(0);
  auto pending = dist::PendingType::get(op->getContext(), cast<RankedTensorType>(input.getType()));
  auto start = mem::StartOp::create(builder, op->getLoc(), pending, input, isa<mem::OffloadOp>(op));
  auto wait = mem::WaitOp::create(builder, op->getLoc(), input.getType(), start.getPending());
  start->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  wait->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op->getResult(0).replaceAllUsesWith(wait.getResult());
  op->erase();
  return {start, wait, nullptr, nullptr};
}

/// The first op that reads the value or a view of it.
static Operation *firstReader(Value value) {
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner(), *reader = nullptr;
    if (isView(user)) // of several operands, result i shows operand i
      reader = firstReader(user->getResult(user->getNumResults() == 1 ? 0 : use.getOperandNumber()));
    if (!reader)
      reader = user;
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

/// The last op that reads the value or a view of it.
static Operation *lastReader(Value value) {
  Operation *last = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner(), *reader = nullptr;
    if (isView(user))
      reader = lastReader(user->getResult(user->getNumResults() == 1 ? 0 : use.getOperandNumber()));
    if (!reader)
      reader = user;
    if (!last || last->isBeforeInBlock(reader))
      last = reader;
  }
  return last;
}

/// The unit of which the copy is a whole group, read in place; else null.
static StringAttr wholeUnit(mem::WaitOp wait) {
  auto view = dyn_cast<dist::UnitViewOp>(*wait->user_begin());
  return view ? view.getUnitAttr().getAttr() : StringAttr();
}

static void moveAfterMaker(mem::StartOp start) {
  Operation *last = start.getInput().getDefiningOp();
  if (last && last->getNextNode() != start)
    start->moveAfter(last);
}

/// Moves the start in front of `place`, or behind what makes its operand.
static void startAt(mem::StartOp start, Operation *place) {
  Operation *source = start.getInput().getDefiningOp();
  if (source && !source->isBeforeInBlock(place))
    start->moveAfter(source);
  else if (place->isBeforeInBlock(start))
    start->moveBefore(place);
}

static bool isOfUpdate(mem::StartOp start) {
  auto phase = start->getAttrOfType<nn::PhaseAttr>(nn::kPhaseAttr);
  return phase && phase.getValue() == nn::Phase::Update;
}

static bool isWantedLate(Transfer &transfer) {
  return transfer.reader->hasTrait<OpTrait::IsTerminator>() || (transfer.start.getToHost() && !isOfUpdate(transfer.start));
}

/// Where copies for the first update start: what the ranks exchange about all
/// gradients gives them time.
static Operation *lead(Operation *place) {
  for (Operation *op = place; op; op = op->getPrevNode())
    if (isa<dist::WaitOp>(op))
      return op;
  return place;
}

/// `place`, or later, from where on at most `most` units are whole with this one.
static Operation *boundWhole(mem::WaitOp wait, ArrayRef<Transfer> before, Operation *place, int64_t most) {
  StringAttr unit = wholeUnit(wait);
  if (!unit)
    return place;
  for (;;) {
    llvm::SmallSetVector<StringAttr, 4> alive;
    Operation *firstEnd = nullptr;
    for (const Transfer &other : before) {
      StringAttr otherUnit = wholeUnit(other.wait);
      if (!otherUnit || otherUnit == unit || other.last->isBeforeInBlock(place))
        continue;
      alive.insert(otherUnit);
      if (!firstEnd || other.last->isBeforeInBlock(firstEnd))
        firstEnd = other.last;
    }
    if (int64_t(alive.size()) < most || !firstEnd->isBeforeInBlock(wait))
      return place;
    place = firstEnd->getNextNode();
  }
}

void shale::scheduleTransfers(Block &block, bool ahead, int64_t mostWhole) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (isa<mem::OffloadOp, mem::ReloadOp>(op))
      ops.push_back(&op);
  // All first: the reader of one may be another.
  SmallVector<Transfer> transfers, soon, late;
  for (Operation *op : ops)
    transfers.push_back(split(op));
  for (Transfer &transfer : transfers) {
    transfer.reader = firstReader(transfer.wait.getResult());
    transfer.last = lastReader(transfer.wait.getResult());
    if (!transfer.reader) {
      transfer.wait->erase();
      transfer.start->erase();
      continue;
    }
    (isWantedLate(transfer) ? late : soon).push_back(transfer);
  }
  auto before = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  for (Transfer &transfer : late)
    moveAfterMaker(transfer.start);
  llvm::stable_sort(late, [&](auto &a, auto &b) { return before(a.start, b.start); });
  for (auto [index, transfer] : llvm::enumerate(late)) {
    Operation *until = transfer.reader;
    if (index + 1 < late.size() && before(late[index + 1].start, until))
      until = late[index + 1].start;
    // Views of the copy stand before its reader.
    for (Operation *user : transfer.wait->getUsers())
      if (before(user, until))
        until = user;
    transfer.wait->moveBefore(until);
  }
  auto firstUser = [&](Transfer &transfer) {
    Operation *first = transfer.reader;
    for (Operation *user : transfer.wait->getUsers())
      if (before(user, first))
        first = user;
    return first;
  };
  for (Transfer &transfer : soon) {
    transfer.wait->moveBefore(firstUser(transfer));
    transfer.start->moveBefore(transfer.wait);
  }
  if (!ahead)
    return;
  llvm::stable_sort(soon, [&](auto &a, auto &b) { return before(a.wait, b.wait); });
  // Copies for one reader start together: where those for the reader before are
  // waited for.
  Operation *place = nullptr, *next = nullptr, *reader = nullptr;
  bool updating = false;
  for (auto [index, transfer] : llvm::enumerate(soon)) {
    if (transfer.reader != reader) {
      place = next ? next : transfer.wait;
      next = transfer.wait;
      reader = transfer.reader;
      if (!updating && isOfUpdate(transfer.start)) {
        updating = true;
        place = lead(next);
      }
    }
    startAt(transfer.start, boundWhole(transfer.wait, ArrayRef<Transfer>(soon).take_front(index), place, mostWhole));
  }
}
