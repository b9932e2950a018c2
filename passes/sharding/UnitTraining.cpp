//===- UnitTraining.cpp - How a function trains groups of parameters ------===//
#include "passes/sharding/UnitTraining.h"
#include "dialects/nn/Ops/Cast.h"

using namespace mlir;

namespace shale {

AxisList GroupTraining::partialIn(dist::ReductionStepAttr step) const {
  AxisList axes;
  for (StringRef axis : step.getAxes().getAsValueRange<StringAttr>())
    if (llvm::is_contained(partialAxes, axis))
      axes.push_back(axis);
  return axes;
}

/// Returns the axes over which a group is reduced. On a data axis some gradient is partial: those
/// that are not are packed as zeros on all ranks but the first. So are all axes over which the
/// update is split, if any is: they are one. On a tensor axis, where gradients that are not partial
/// are the rule, all are partial: else they are reduced one by one.
static AxisList partialAxesOf(const Group &group, ArrayRef<PartialGradient> gradients,
                              dist::MeshOp mesh) {
  auto isPartial = [&](StringRef axis) {
    auto on = [&](const PartialGradient &gradient) {
      return llvm::is_contained(gradient.axes, axis);
    };
    return mesh.sumsGradients(axis) ? llvm::any_of(gradients, on) : llvm::all_of(gradients, on);
  };
  SmallVector<StringRef, 2> together;
  if (StringAttr update = group.updateAxis())
    together = dist::MeshOp::membersOf(update);
  bool any = llvm::any_of(together, isPartial);
  AxisList axes;
  for (StringRef axis : axesByPriority(mesh))
    if (isPartial(axis) || (any && llvm::is_contained(together, axis)))
      axes.push_back(axis);
  return axes;
}

FailureOr<UnitTraining> UnitTraining::read(func::FuncOp function, dist::MeshOp mesh, Units &units) {
  UnitTraining training(units);
  for (Group &group : units.groups) {
    training.groups[group].updates.resize(group.params.size());
    training.groups[group].gradients.resize(group.params.size());
  }
  if (failed(training.readAccumulations(function, units)) ||
      failed(training.readUpdates(function, units)))
    return failure();
  for (Group &group : units.groups) {
    GroupTraining &own = training.groups[group];
    own.partialAxes = partialAxesOf(group, own.gradients, mesh);
  }
  return training;
}

ArrayRef<Group *> UnitTraining::groupsOf(Value gradient) const {
  auto it = byGradient.find(gradient);
  return it == byGradient.end() ? ArrayRef<Group *>() : it->second;
}

LogicalResult UnitTraining::readAccumulations(func::FuncOp function, Units &units) {
  for (auto accumulate : function.getOps<GradientAccumulationOpInterface>()) {
    auto [group, place] = units.find(accumulate.getParameter());
    if (!group || !group->accumulator.op || groups[*group].gradients[place].value)
      return accumulate->emitOpError("parameter '")
             << accumulate.getParameter() << "' has no accumulator, or is accumulated twice";
    groups[*group].accumulates = true;
    groups[*group].begins = !accumulate.getEarlierSum();
    addGradient(*group, place, beforeSums(accumulate.getGradientOperand().get(), *group));
  }
  return success();
}

LogicalResult UnitTraining::readUpdates(func::FuncOp function, Units &units) {
  GroupMap<int64_t> counts(units);
  for (auto update : function.getOps<OptimizerUpdateOpInterface>()) {
    auto argument = cast<BlockArgument>(update.getParameterOperand().get());
    auto symbol =
        function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
    auto [group, place] = units.find(symbol.getValue());
    groups[*group].updates[place] = update;
    ++counts[*group];
    PartialGradient gradient = beforeSums(update.getGradientOperand().get(), *group);
    if (!groups[*group].gradients[place].value)
      addGradient(*group, place, gradient);
    else if (!gradient.value.getDefiningOp<GradientAccumulationOpInterface>())
      return update->emitOpError("must read the sum of the gradients of all micro-batches");
  }
  for (Group &group : units.groups) {
    int64_t updates = counts[group], all = group.params.size(),
            gradients = llvm::count_if(groups[group].gradients,
                                       [](const PartialGradient &each) { return each.value; }),
            count = std::max(updates, gradients);
    if ((count != 0 && count != all) || (updates != 0 && updates != all))
      return function.emitError("updates or accumulates ")
             << count << " of the " << all << " parameters of group '"
             << group.attr.getName().getValue() << "' of unit '" << group.unit.getSymName() << "'";
  }
  return success();
}

void UnitTraining::addGradient(Group &group, int64_t place, const PartialGradient &gradient) {
  groups[group].gradients[place] = gradient;
  byGradient[gradient.value].push_back(&group);
}

/// Whether all users of the op's result work on gradients. Then the flat group takes the op's
/// place.
bool UnitTraining::feedsGradientsOnly(Operation *op) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return absorbed.contains(user) || isa<GradientPartsOpInterface>(user);
  });
}

/// Returns the gradient before its sums over axes that do not split its parameter, and before its
/// cast to the reduce type. These are delayed until the gradient is packed.
PartialGradient UnitTraining::beforeSums(Value gradient, const Group &group) {
  PartialGradient found{gradient, {}};
  bool rounded = false;
  while (Operation *op = found.value.getDefiningOp()) {
    auto sum = dyn_cast<dist::AllReduceOp>(op);
    SmallVector<StringRef, 2> over;
    if (sum && sum.getReduction() == dist::Reduction::Sum)
      over = dist::MeshOp::membersOf(sum.getAxis());
    bool sums = !over.empty() &&
                llvm::none_of(group.attr.getAxes().getAsRange<StringAttr>(), [&](StringAttr axis) {
                  return llvm::is_contained(over, axis.getValue());
                });
    bool rounds = isa<nn::CastOp>(op) && !rounded;
    if (!sums && !rounds)
      break;
    if (feedsGradientsOnly(op))
      absorbed.insert(op);
    else if (rounds)
      break;
    if (sums)
      llvm::append_range(found.axes, over);
    rounded |= rounds;
    found.value = op->getOperand(0);
  }
  return found;
}

} // namespace shale
