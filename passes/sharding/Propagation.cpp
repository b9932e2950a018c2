//===- Propagation.cpp - Layouts that follow from fixed ones --------------===//
#include "passes/sharding/Propagation.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

Propagation::Propagation(dist::MeshOp mesh, AxisList axes, ArrayRef<Operation *> list)
    : mesh(mesh), axes(std::move(axes)), ops(list) {
  for (Operation *op : ops) {
    states[op].rule = getRule(op);
    inBlocks |= makesBlocks(op, mesh);
    for (OpOperand &operand : op->getOpOperands())
      reads[operand.get()].push_back(&operand);
  }
}

bool Propagation::passes(Operation *op) { return !isa<GradientPartsOpInterface>(op); }

/// Seeds the splits of a constraint. It determines all axes except data axes that it
/// does not name, but for those of experts.
void Propagation::seedConstraint(dist::ConstrainOp op) {
  OpState &state = states[op];
  TensorLayout layout = TensorLayout::from(op.getSharding());
  dropSingletons(layout, mesh);
  for (StringRef axis : axes)
    if (Projection part = projectAxis(state.rule, state.rule.results[0], layout, axis, mesh))
      split(state, part, axis);
}

//===- One step -----------------------------------------------------------===//

static int64_t rankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

TensorLayout Propagation::layoutOf(Value value) const {
  auto it = fixed.find(value);
  if (it != fixed.end())
    return it->second;
  auto result = dyn_cast<OpResult>(value);
  auto state = result ? states.find(result.getOwner()) : states.end();
  if (state == states.end())
    return TensorLayout::replicated(rankOf(value));
  return resultLayout(state->second.rule, state->second.assignment, result.getResultNumber());
}

bool Propagation::split(OpState &state, Projection part, StringRef axis) {
  int64_t size = mesh.getSize(axis);
  if (!canSplit(state.rule, state.assignment, part, size, inBlocks))
    return false;
  state.assignment.factors[part.factor].push_back({axis, size, part.blocks});
  return true;
}

/// Whether propagation may still split `op` over `axis`.
bool Propagation::isOpen(Operation *op, const OpState &state, StringRef axis) {
  return state.assignment.factorOf(axis) < 0 && !state.assignment.keeps(axis) &&
         (!isa<dist::ConstrainOp>(op) || !mesh.exchangesValues(axis));
}

/// Whether the rows of a norm may be split: the plan has split its scale, an operand of columns
/// only. Other splits of rows are gathered: they would go on along the residual.
bool Propagation::mayExchange(Operation *op, const OpState &state, int64_t factor,
                              StringRef axis) const {
  if (splitsNorms || !isExchanged(state.rule, factor))
    return true;
  for (auto [operand, tensor] : llvm::zip_equal(op->getOperands(), state.rule.operands))
    if (tensor.size() == 1 && llvm::is_contained(tensor.front(), factor) &&
        layoutOf(operand).dimOf(axis) == 0)
      return true;
  return false;
}

bool Propagation::forward(Operation *op, StringRef axis) {
  OpState &state = states[op];
  if (!isOpen(op, state, axis))
    return false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Projection part =
        projectAxis(state.rule, state.rule.operands[i], layoutOf(operand), axis, mesh);
    if (part && mayExchange(op, state, part.factor, axis) && split(state, part, axis))
      return true;
  }
  // On a tensor axis a sum of partial sums stays one: a split that users want would make each of
  // them an exchange.
  return mesh.splitsValues(axis) && keepPartialSums(op, axis);
}

/// Propagates a split with which a user reads a result to the op. Not to a norm: a slice of its
/// rows costs nothing.
bool Propagation::backward(Operation *op, StringRef axis) {
  OpState &state = states[op];
  if (!isOpen(op, state, axis))
    return false;
  for (OpResult result : op->getResults()) {
    auto take = [&](const TensorLayout &layout) {
      Projection part =
          projectAxis(state.rule, state.rule.results[result.getResultNumber()], layout, axis, mesh);
      return part && !isExchanged(state.rule, part.factor) && split(state, part, axis);
    };
    ArrayRef<OpOperand *> uses;
    if (auto found = reads.find(result); found != reads.end())
      uses = found->second;
    for (OpOperand *use : llvm::reverse(uses)) {
      const OpState &user = states[use->getOwner()];
      if (take(operandLayout(user.rule, user.assignment, use->getOperandNumber())))
        return true;
    }
    if (auto other = wanted.find(result); other != wanted.end() && take(other->second))
      return true;
  }
  return false;
}

/// Whether `op` computes with partial sums in `operands`. On a tensor axis only if nothing else
/// does: otherwise the value is summed once, for all of its users.
bool Propagation::keeps(Operation *op, ArrayRef<int64_t> operands, StringRef axis) {
  if (operands.empty())
    return false;
  return !mesh.splitsValues(axis) ||
         (op->getNumResults() == 1 &&
          llvm::all_of(operands, [&](int64_t i) { return op->getOperand(i).hasOneUse(); }));
}

/// Lets `op` compute with the partial sums that its operands are, if it can. Returns whether it
/// does.
bool Propagation::keepPartialSums(Operation *op, StringRef axis) {
  OpState &state = states[op];
  if (!isOpen(op, state, axis) || isa<dist::ConstrainOp>(op))
    return false;
  SmallVector<TensorLayout, 4> operands;
  for (Value operand : op->getOperands())
    operands.push_back(layoutOf(operand));
  SmallVector<int64_t> kept = keptOperands(state.rule, operands, axis);
  if (!keeps(op, kept, axis))
    return false;
  state.assignment.kept.emplace_back(axis, kept);
  return true;
}

//===- All steps ----------------------------------------------------------===//

/// Propagates the splits over an axis until nothing changes. Returns whether any did.
bool Propagation::propagate(StringRef axis) {
  bool any = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *op : ops)
      changed |= forward(op, axis);
    any |= changed;
    if (changed)
      continue;
    for (Operation *op : llvm::reverse(ops))
      changed |= backward(op, axis);
    any |= changed;
  }
  return any;
}

void Propagation::run() {
  for (Operation *op : ops) {
    OpState &state = states[op];
    state.assignment = Assignment();
    state.assignment.factors.resize(state.rule.factors.size());
  }
  for (Operation *op : ops)
    if (auto constraint = dyn_cast<dist::ConstrainOp>(op))
      seedConstraint(constraint);
  // A split of a major part of a dimension may make one of the rest contiguous, over an axis that
  // was visited before.
  for (bool again = true; again;) {
    again = false;
    for (StringRef axis : axes)
      again |= propagate(axis);
  }
  // All splits are known, and operands come before users. Operands that were split since may have
  // changed what an op can keep.
  for (Operation *op : ops) {
    states[op].assignment.kept.clear();
    for (StringRef axis : axes)
      keepPartialSums(op, axis);
  }
}

void Propagation::forReads(
    llvm::function_ref<void(OpOperand &, const TensorLayout &, const TensorLayout &)> visit) const {
  for (Operation *op : ops) {
    const OpState &state = states.find(op)->second;
    for (OpOperand &operand : op->getOpOperands())
      visit(operand, layoutOf(operand.get()),
            operandLayout(state.rule, state.assignment, operand.getOperandNumber()));
  }
}

void Propagation::forOps(
    llvm::function_ref<void(Operation *, const ShardingRule &, const Assignment &)> visit) const {
  for (Operation *op : ops) {
    const OpState &state = states.find(op)->second;
    visit(op, state.rule, state.assignment);
  }
}

} // namespace sharding
} // namespace shale
