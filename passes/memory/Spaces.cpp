//===- Spaces.cpp - The memory in which each value is ---------------------===//
#include "passes/memory/Spaces.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Blocks.h"

using namespace mlir;

namespace shale {

static bool isHostState(nn::StateOp state) {
  return state && mem::getHome(state) == mem::Memory::Host;
}

bool isHostArgument(BlockArgument argument) { return isHostState(nn::getState(argument)); }

bool isHostResult(func::FuncOp function, unsigned result) {
  return isHostState(nn::getState(function, function.getResultAttr(result, nn::kStateAttr)));
}

bool isInBothMemories(Value value) {
  Value root = viewedValue(value);
  auto type = dyn_cast<RankedTensorType>(root.getType());
  if (!type || root.getDefiningOp<nn::ConstantOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(root);
  return argument && type.getRank() == 0 && !nn::getState(argument);
}

bool isOnHost(Value value) {
  Value root = viewedValue(value);
  if (isInBothMemories(root))
    return false;
  if (auto argument = dyn_cast<BlockArgument>(root))
    return isHostArgument(argument);
  Operation *op = root.getDefiningOp();
  return isa<mem::OffloadOp>(op) || runsOnHost(op);
}

/// Whether the value is a gradient accumulator whose home is host memory.
static bool isHostAccumulator(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
  return isHostState(state) && state.getRole() == nn::Role::GradAccumulator;
}

bool runsOnHost(Operation *op) {
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
    return llvm::any_of(update.getStateOperands(),
                        [](OpOperand *operand) { return isOnHost(operand->get()); });
  if (isa<ElementwiseOpInterface>(op) && llvm::any_of(op->getOperands(), isHostAccumulator))
    return true;
  return isa<ElementReductionOpInterface>(op) && llvm::any_of(op->getOperands(), isOnHost);
}

} // namespace shale
