//===- Regions.cpp - Ops in f32 around loss and gradients -----------------===//
#include "passes/precision/Regions.h"
#include "dialects/nn/NN.h"

using namespace mlir;

namespace shale {

/// Whether the op is elementwise or indexes its operands without a table lookup.
static bool isElementwiseOrMove(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return true;
  auto indexed = dyn_cast<IndexedOpInterface>(op);
  if (!indexed || !isa<PrecisionOpInterface>(op))
    return false;
  return llvm::none_of(llvm::seq<unsigned>(0, op->getNumOperands()),
                       [&](unsigned i) { return indexed.readsMemory(i); });
}

static bool isMetric(func::FuncOp function, OpOperand &operand) {
  auto role = function.getResultAttrOfType<nn::RoleAttr>(operand.getOperandNumber(), nn::kRoleAttr);
  return role && role.getValue() == nn::Role::Metric;
}

OpSet lossRegion(func::FuncOp function) {
  OpSet region;
  Block &block = function.getBody().front();
  for (Operation &op : llvm::reverse(block)) {
    bool softmax = isa<PrecisionOpInterface>(op) && isa<DecomposableOpInterface>(op) &&
                   op.getNumOperands() == 1;
    if (!nn::isInPhase(&op, nn::Phase::Forward) || !(isElementwiseOrMove(&op) || softmax))
      continue;
    for (OpOperand &use : op.getUses()) {
      Operation *user = use.getOwner();
      if (user == block.getTerminator() ? isMetric(function, use) : region.contains(user)) {
        region.insert(&op);
        break;
      }
    }
  }
  return region;
}

OpSet gradientRegion(func::FuncOp function) {
  OpSet region;
  auto wantsSum = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(user))
      return &update.getGradientOperand() == &use;
    if (isa<ElementReductionOpInterface>(user))
      return true;
    auto precision = dyn_cast<PrecisionOpInterface>(user);
    if (!precision)
      return false;
    Numeric numeric = precision.getOperandNumeric(use.getOperandNumber());
    return numeric == Numeric::Accumulates ||
           (region.contains(user) && numeric == Numeric::Follows);
  };
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    if (!precision || op.getNumResults() != 1 || op.use_empty())
      continue;
    bool sums = precision.getResultNumeric(0) == Numeric::Accumulates;
    if ((sums || isElementwiseOrMove(&op)) && llvm::all_of(op.getUses(), wantsSum))
      region.insert(&op);
  }
  return region;
}

} // namespace shale
