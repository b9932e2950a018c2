//===- OpenValues.cpp - Values that follow splits across regions ----------===//
#include "passes/sharding/OpenValues.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Propagation.h"

using namespace mlir;
using namespace shale;

/// Whether a value is an argument that holds a parameter or a buffer.
static bool isState(func::FuncOp function, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && function.getArgAttr(argument.getArgNumber(), nn::kStateAttr);
}

/// Returns the values that are computed from parameters, buffers and constants alone.
static OpenValues valuesOfParameters(func::FuncOp function) {
  OpenValues found;
  auto isKnown = [&](Value value) { return isState(function, value) || found.contains(value); };
  for (Operation &op : function.getBody().front().without_terminator())
    if (Propagation::passes(&op) && llvm::all_of(op.getOperands(), isKnown))
      found.insert_range(op.getResults());
  return found;
}

OpenValues sharding::openValuesOf(func::FuncOp function) {
  OpenValues known = valuesOfParameters(function), gradients;
  auto leadsToGradients = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<OptimizerUpdateOpInterface, GradientPartsOpInterface>(user))
      return true;
    auto isOpen = [&](Value other) {
      return other == use.get() || known.contains(other) || gradients.contains(other) ||
             isState(function, other);
    };
    return user->getNumResults() > 0 && llvm::all_of(user->getOperands(), isOpen) &&
           llvm::all_of(user->getResults(),
                        [&](Value result) { return gradients.contains(result); });
  };
  // The largest such set: partial sums of one gradient are added to each other.
  auto backward = [&](auto visit) {
    for (Operation &op : llvm::reverse(function.getBody().front().without_terminator()))
      if (nn::isInPhase(&op, nn::Phase::Backward) && Propagation::passes(&op))
        for (Value result : op.getResults())
          visit(result);
  };
  backward([&](Value result) { gradients.insert(result); });
  for (bool changed = true; changed;) {
    changed = false;
    backward([&](Value result) {
      if (result.use_empty() || !llvm::all_of(result.getUses(), leadsToGradients))
        changed |= gradients.erase(result);
    });
  }
  known.insert_range(gradients);
  return known;
}
