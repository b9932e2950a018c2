//===- UnitRewriter.cpp - Moves a function's parameters into units --------===//
#include "passes/sharding/UnitRewriter.h"

using namespace mlir;

namespace shale {

UnitRewriter::UnitRewriter(func::FuncOp function, dist::MeshOp mesh, Units &units,
                           const UnitTraining &training)
    : units(units), training(training), flat(function, units, training),
      residuals(units, training, flat), gradients(units, mesh, training, flat, residuals),
      updates(units, mesh, training, flat), updatesSeen(units) {}

LogicalResult UnitRewriter::rewrite(func::FuncOp function, dist::MeshOp mesh, Units &units) {
  FailureOr<UnitTraining> training = UnitTraining::read(function, mesh, units);
  if (failed(training) || failed(declareResiduals(units, mesh, *training)))
    return failure();
  UnitRewriter rewriter(function, mesh, units, *training);
  return rewriter.flat.build([&](Operation *op) { return rewriter.rewriteOp(op); });
}

LogicalResult UnitRewriter::rewriteOp(Operation *op) {
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
    return rewriteUpdate(update);
  if (isa<ElementReductionOpInterface>(op))
    return gradients.rewriteReduction(op);
  if (op->hasTrait<OpTrait::IsTerminator>())
    return rewriteReturn(op);
  // Sums and updates are built for flat groups, once the gradients of a group are complete.
  if (isa<GradientAccumulationOpInterface>(op) || training.isAbsorbed(op))
    return success();
  flat.copy(op);
  return gradients.note(op);
}

/// Builds the update of a group where the last one of its parameters was.
LogicalResult UnitRewriter::rewriteUpdate(OptimizerUpdateOpInterface update) {
  Group &group = flat.groupOf(update.getParameterOperand().get());
  if (++updatesSeen[group] < group.params.size())
    return success();
  if (failed(gradients.reduce(group)) || failed(updates.build(group, gradients.of(group))))
    return failure();
  residuals.keep(group);
  return success();
}

/// Returns flat states in the order of the arguments, in the place of the first state.
LogicalResult UnitRewriter::rewriteReturn(Operation *op) {
  func::FuncOp function = flat.getOld();
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  auto addState = [&](nn::StateOp state, Value value) {
    results.push_back(value);
    attrs.push_back(flat.stateAttrs(state));
  };
  bool statesAdded = false;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    if (!symbol || flat.isOutside(symbol)) {
      DictionaryAttr attr = function.getResultAttrDict(index);
      results.push_back(flat.lookup(operand.get()));
      attrs.push_back(attr ? attr : DictionaryAttr::get(op->getContext()));
      continue;
    }
    bool accumulated = operand.get().getDefiningOp<GradientAccumulationOpInterface>();
    if (!accumulated && !operand.get().getDefiningOp<OptimizerUpdateOpInterface>())
      return function.emitError("result ")
             << index << " is a new value of state " << symbol << " that no optimizer update makes";
    if (statesAdded)
      continue;
    statesAdded = true;
    if (accumulated)
      for (Group &group : units.groups)
        if (Value sum = gradients.of(group))
          addState(group.accumulator.op, sum);
    for (Group &group : units.groups)
      for (auto [state, value] :
           llvm::zip(accumulated ? group.pendingResiduals : group.residuals, residuals.of(group)))
        addState(state, value);
    size_t roles = 0;
    for (Group &group : units.groups)
      roles = std::max(roles, updates.of(group).results.size());
    for (size_t role = 0; role < roles; ++role)
      for (Group &group : units.groups) {
        const UpdatedGroup &updated = updates.of(group);
        if (role < updated.results.size())
          addState((role == 0 ? group.param : group.moments[role - 1]).op, updated.results[role]);
        if (role == 0 && updated.copy)
          addState(group.copy.op, updated.copy);
      }
  }
  flat.returnFrom(op->getLoc(), results, attrs);
  return success();
}

} // namespace shale
