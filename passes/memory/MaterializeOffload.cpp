//===- MaterializeOffload.cpp - Inserts copies to host memory and back ----===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "lib/Analysis/Blocks.h"
#include "mlir/IR/IRMapping.h"
#include "passes/memory/Intervals.h"
#include "passes/memory/Passes.h"
#include "passes/memory/Spaces.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_MATERIALIZEOFFLOADPASS
#include "passes/memory/Passes.h.inc"

namespace {

class OffloadMaterializer {
public:
  OffloadMaterializer(func::FuncOp function, int64_t bound)
      : function(function), bound(bound), builder(function.getContext()) {}
  void run();

private:
  template <typename OpT> Value move(Value value, Operation *like) {
    auto op = OpT::create(builder, value.getLoc(), value.getType(), value);
    if (like)
      nn::copyPhaseAndScope(like, op);
    return op.getResult();
  }
  void offloadGradient(OpResult gradient);
  void offloadActivation(OpResult value);
  void reloadParameter(BlockArgument argument);
  void reloadWhole(ArrayRef<OpOperand *> uses);
  void moveOperands(Operation *op);
  void moveResults();

  func::FuncOp function;
  int64_t bound;
  OpBuilder builder;
  /// Copies for ops of the update, by value and whether the copy is on the host.
  std::map<std::pair<void *, bool>, Value> copies;
  /// Uses of whole parameters whose home is the host.
  SmallVector<OpOperand *> wholeUses;
};

} // namespace

void OffloadMaterializer::offloadGradient(OpResult gradient) {
  Operation *op = gradient.getOwner();
  builder.setInsertionPointAfter(op);
  Value copy = move<mem::OffloadOp>(gradient, op);
  gradient.replaceAllUsesExcept(copy, copy.getDefiningOp());
}

/// Makes all ops that read the value after the forward pass read a copy of the host
/// copy. That copy is made in front of the first reader; views are cloned on it.
void OffloadMaterializer::offloadActivation(OpResult value) {
  SmallVector<OpOperand *> later;
  Operation *first = nullptr;
  SmallVector<Value> shown{value};
  while (!shown.empty())
    for (OpOperand &use : shown.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isForward(user)) {
        if (isView(user))
          llvm::append_range(shown, user->getResults());
      } else if (!user->hasTrait<OpTrait::IsTerminator>()) {
        later.push_back(&use);
        first = !first || user->isBeforeInBlock(first) ? user : first;
      }
    }
  if (!first || cast<RankedTensorType>(value.getType()).getRank() == 0)
    return;
  builder.setInsertionPointAfter(value.getOwner());
  Value copy = move<mem::OffloadOp>(value, value.getOwner());
  builder.setInsertionPoint(first);
  Value back = move<mem::ReloadOp>(copy, first);
  IRMapping mapping;
  mapping.map(value, back);
  std::function<Value(Value)> again = [&](Value old) {
    if (Value known = mapping.lookupOrNull(old))
      return known;
    Operation *view = old.getDefiningOp();
    for (Value operand : view->getOperands())
      again(operand);
    Operation *clone = builder.clone(*view, mapping);
    clone->setAttr(nn::kPhaseAttr, first->getAttr(nn::kPhaseAttr));
    return mapping.lookup(old);
  };
  for (OpOperand *use : later)
    use->set(again(use->get()));
}

/// Makes gathers read a copy of the shard. Ops that read parameters in place read
/// copies of the whole group, one for each interval of use.
void OffloadMaterializer::reloadParameter(BlockArgument argument) {
  SmallVector<Value> shown{argument};
  SmallVector<OpOperand *> gathers;
  while (!shown.empty())
    for (OpOperand &use : shown.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isa<mem::BarrierOp>(user))
        shown.push_back(user->getResult(use.getOperandNumber()));
      else if (isa<dist::UnitGatherOp>(user))
        gathers.push_back(&use);
      else if (isa<dist::UnitViewOp>(user))
        wholeUses.push_back(&use);
    }
  for (OpOperand *use : gathers) {
    builder.setInsertionPoint(use->getOwner());
    use->set(move<mem::ReloadOp>(argument, use->getOwner()));
  }
}

void OffloadMaterializer::reloadWhole(ArrayRef<OpOperand *> uses) {
  UnitIntervals::Uses readers;
  for (OpOperand *use : uses) {
    auto view = cast<dist::UnitViewOp>(use->getOwner());
    for (OpOperand &reader : view.getResult().getUses())
      readers.emplace_back(view.getUnitAttr().getAttr(), &reader);
  }
  UnitIntervals intervals(function, readers, bound);
  std::map<std::pair<void *, int64_t>, Value> reloaded;
  llvm::stable_sort(readers, [&](auto &a, auto &b) {
    return intervals.positionOf(a.second->getOwner()) < intervals.positionOf(b.second->getOwner());
  });
  for (auto [unit, reader] : readers) {
    auto view = reader->get().getDefiningOp<dist::UnitViewOp>();
    Value whole = viewedValue(view.getInput());
    int64_t position = intervals.positionOf(reader->getOwner()), begin = -1;
    for (const Interval &interval : intervals.of(unit))
      if (interval.begin <= position && position <= interval.end)
        begin = interval.begin;
    builder.setInsertionPoint(reader->getOwner());
    Value &copy = reloaded[{whole.getAsOpaquePointer(), begin}];
    if (!copy)
      copy = move<mem::ReloadOp>(whole, reader->getOwner());
    auto again = cast<dist::UnitViewOp>(builder.clone(*view));
    again.getInputMutable().set(copy);
    if (Attribute phase = reader->getOwner()->getAttr(nn::kPhaseAttr))
      again->setAttr(nn::kPhaseAttr, phase);
    reader->set(again.getResult());
  }
  for (OpOperand *use : uses)
    if (use->getOwner()->use_empty())
      use->getOwner()->erase();
}

/// Copies an op's operands to the memory where it runs.
void OffloadMaterializer::moveOperands(Operation *op) {
  bool host = runsOnHost(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isInBothMemories(value) || isOnHost(value) == host)
      continue;
    Value &copy = copies[{value.getAsOpaquePointer(), host}];
    if (!copy) {
      builder.setInsertionPoint(op);
      copy = host ? move<mem::OffloadOp>(value, op) : move<mem::ReloadOp>(value, op);
    }
    operand.set(copy);
  }
}

/// Copies new state to its home memory as soon as it is computed.
void OffloadMaterializer::moveResults() {
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value value = operand.get();
    bool host = isHostResult(function, operand.getOperandNumber());
    if (isInBothMemories(value) || !value.getDefiningOp() || isOnHost(value) == host)
      continue;
    builder.setInsertionPointAfter(value.getDefiningOp());
    Operation *like = value.getDefiningOp();
    operand.set(host ? move<mem::OffloadOp>(value, like) : move<mem::ReloadOp>(value, like));
  }
}

void OffloadMaterializer::run() {
  Block &block = function.getBody().front();
  SmallVector<Operation *> annotated;
  for (Operation &op : block)
    if (op.hasAttr(mem::kOffloadAttr))
      annotated.push_back(&op);
  for (Operation *op : annotated)
    for (OpResult result : op->getResults())
      isForward(op) ? offloadActivation(result) : offloadGradient(result);
  for (BlockArgument argument : function.getArguments())
    if (isHostArgument(argument))
      reloadParameter(argument);
  if (!wholeUses.empty())
    reloadWhole(wholeUses);
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    if (!isView(&op) && !isa<mem::OffloadOp, mem::ReloadOp>(op))
      ops.push_back(&op);
  for (Operation *op : ops)
    moveOperands(op);
  moveResults();
  // Erase barriers in front of gathers that now read a copy.
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<mem::BarrierOp>(op) && op.use_empty())
      op.erase();
}

namespace {
struct MaterializeOffloadPass : impl::MaterializeOffloadPassBase<MaterializeOffloadPass> {
  using MaterializeOffloadPassBase::MaterializeOffloadPassBase;
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        OffloadMaterializer(function, maxGathersInFlight).run();
  }
};
} // namespace

} // namespace shale
