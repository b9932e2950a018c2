//===- UnitResiduals.cpp - What quantized gradients lack ------------------===//
#include "passes/sharding/UnitResiduals.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/sharding/Reshard.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

static LogicalResult declareStates(Group &group, const Units &units, dist::MeshOp mesh,
                                   const GroupTraining &training) {
  std::vector<std::pair<std::string, int64_t>> roundings; // what follows the name; elements
  int64_t count = group.attr.getCount();
  for (auto step : group.storage().getSteps().getAsRange<dist::ReductionStepAttr>()) {
    AxisList axes = training.partialIn(step);
    if (!axes.empty() && step.getEncoding()) {
      std::string name = joinAxes(axes, mesh).str();
      roundings.push_back({name, count});
      if (!step.getScatter())
        roundings.push_back({name + ".sum", count / mesh.getSize(name)});
    }
    if (step.getScatter())
      count = units.updatedCount(group);
  }
  if (!group.residuals.empty() || roundings.empty())
    return success(group.residuals.size() == roundings.size());
  SymbolTable symbols(group.unit->getParentOp());
  OpBuilder declares(mesh.getContext());
  for (const auto &[suffix, elements] : roundings) {
    std::string name = (group.param.op.getSymName() + ".residual." + suffix).str();
    auto state = nn::StateOp::create(declares, group.unit.getLoc(), name, nn::Role::Residual,
                                     RankedTensorType::get({elements}, declares.getF32Type()));
    Operation *before = group.residuals.empty() ? group.param.op : group.residuals.back();
    symbols.insert(state, std::next(Block::iterator(before)));
    group.residuals.push_back(state);
  }
  if (group.accumulator.op && !units.policy.reduceOnce)
    for (nn::StateOp residual : group.residuals) {
      auto state = nn::StateOp::create(declares, group.unit.getLoc(),
                                       (residual.getSymName() + ".pending").str(),
                                       nn::Role::GradAccumulator, residual.getTensorType());
      state.setOfAttr(FlatSymbolRefAttr::get(residual));
      Operation *before =
          group.pendingResiduals.empty() ? group.residuals.back() : group.pendingResiduals.back();
      symbols.insert(state, std::next(Block::iterator(before)));
      group.pendingResiduals.push_back(state);
    }
  return success();
}

LogicalResult declareResiduals(Units &units, dist::MeshOp mesh, const UnitTraining &training) {
  for (Group &group : units.groups)
    if (const GroupTraining &own = training.of(group);
        own.reduces(units.policy) && failed(declareStates(group, units, mesh, own)))
      return failure();
  return success();
}

Value UnitResiduals::add(Group &group, Value value, dist::EncodingAttr encoding) {
  const GroupArguments &arguments = flat.argumentsOf(group);
  bool pending = !group.pendingResiduals.empty() && !training.of(group).begins;
  ArrayRef<Value> last = pending ? arguments.pendingResiduals : arguments.residuals;
  OpBuilder &builder = flat.getBuilder();
  value = nn::AddOp::create(builder, group.getLoc(), value, last[made[group].size()]);
  made[group].push_back(
      dist::QuantizationErrorOp::create(builder, group.getLoc(), value, encoding));
  return value;
}

void UnitResiduals::keep(Group &group) {
  ArrayRef<Value> old = flat.argumentsOf(group).residuals;
  if (old.empty())
    return;
  OptimizerUpdateOpInterface update = training.of(group).firstUpdate();
  // The operand `enable` follows the states, of which there are as many as results after the
  // parameter.
  Value enable = flat.lookup(update->getOperand(1 + update->getNumResults()));
  OpBuilder &builder = flat.getBuilder();
  Location loc = group.getLoc();
  Value leftOut = nn::NotOp::create(builder, loc, enable.getType(), enable);
  for (auto [before, after] : llvm::zip(old, made[group])) {
    // The old value comes first: the kernel works in its place.
    after = sharding::choose(builder, loc, leftOut, before, after);
  }
}

} // namespace sharding
} // namespace shale
