//===- OrderOps.cpp - Orders ops to lower the sum of live bytes -----------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "lib/Analysis/Gathers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/LiveBytes.h"
#include "passes/schedule/Packs.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_ORDEROPSPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

/// Whether the op is best placed just before its first user: it costs nothing,
/// or its result takes more memory than what it reads.
static bool standsAtUse(Operation *op) {
  if (auto placed = dyn_cast<PlacedAtUseOpInterface>(op))
    return placed.isPlacedAtUse();
  if (isView(op) || convertsGathered(op))
    return true;
  return isMemoryEffectFree(op) &&
         nn::tensorBytes(op->getResultTypes()) > nn::tensorBytes(op->getOperandTypes()) &&
         op->getNumRegions() == 0 && op->getNumOperands() <= 1;
}

/// Moves each op that is best placed at its use before the first of its users. Moving ops are
/// collected by the staying op that they end up in front of, and are moved together: moving op by
/// op would renumber the block again and again.
static void sinkToUses(Block &block) {
  SmallVector<Operation *> ops;
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : block) {
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
  DenseMap<Operation *, Operation *> stays; // the staying op in front of which an op moves
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

static Operation *lastDefinition(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp())
      if (!last || last->isBeforeInBlock(definition))
        last = definition;
  return last;
}

/// Moves each reduction, and the packing of its operand, to where the last operand is complete.
static void hoistReductions(Block &block) {
  SmallVector<dist::StartOp> starts;
  for (auto start : block.getOps<dist::StartOp>())
    if (!isa<dist::UnitGatherOp>(start.getCollective().getOperation()))
      starts.push_back(start);
  for (dist::StartOp start : starts) {
    Operation *input = start.getInput().getDefiningOp();
    if (!input)
      continue;
    if (dist::UnitPackOp pack = packOf(start.getInput())) {
      if (Operation *definition = lastDefinition(pack))
        pack->moveAfter(definition);
      if (input != pack)
        input->moveAfter(lastDefinition(input));
    }
    start->moveAfter(input);
  }
}

namespace {
struct OrderOpsPass : public shale::impl::OrderOpsPassBase<OrderOpsPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(forEachBody(getOperation(), [&](Block &block) {
          sinkToUses(block);
          delayMakers(block);
          hoistReductions(block);
          sinkToUses(block); // again, for ops whose first use has moved
        })))
      signalPassFailure();
  }
};
} // namespace
