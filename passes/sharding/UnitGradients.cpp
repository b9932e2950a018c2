//===- UnitGradients.cpp - Gradients of flat groups -----------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/sharding/Reshard.h"
#include "passes/sharding/UnitRewriter.h"

using namespace mlir;

namespace shale {

/// Reduces a group as soon as `op` computes its last gradient, except with strategy
/// `optimizer`, which reduces at the end. Gradients that are only accumulated are
/// added to the accumulator at once.
LogicalResult UnitRewriter::noteGradients(Operation *op) {
  for (Value result : op->getResults()) {
    auto it = gradients.find(result);
    if (it == gradients.end())
      continue;
    for (Group *group : it->second) {
      GroupValues &values = valuesOf(*group);
      if (--values.gradientsToCome > 0)
        continue;
      bool last = values.updatesToCome > 0;
      LogicalResult done = success();
      if (!last && units.policy.reduceOnce) {
        done = packGradients(*group);
        values.gradient = values.packed;
      } else if (!last || !dist::reducesAtEnd(units.policy.strategy)) {
        done = reduceGradients(*group);
      } else if (values.accumulates) {
        done = packGradients(*group);
      }
      if (failed(done))
        return failure();
    }
  }
  return success();
}

Value UnitRewriter::castTo(Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return nn::CastOp::create(builder, value.getLoc(), type.clone(element), value);
}

/// Casts a gradient right after its definition, so that the wider one has no other readers.
static Value castAtOnce(OpBuilder &builder, Value gradient, Type element) {
  auto type = cast<RankedTensorType>(gradient.getType());
  if (type.getElementType() == element)
    return gradient;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(gradient);
  auto made = nn::CastOp::create(builder, gradient.getLoc(), type.clone(element), gradient);
  if (Operation *definition = gradient.getDefiningOp())
    nn::copyPhaseAndScope(definition, made);
  return made;
}

/// Adds `now` to the sum of the previous micro-batches, in the accumulator's type.
/// The accumulator is the first operand, so that the sum can reuse its buffer.
Value UnitRewriter::addToAccumulator(Group &group, Value now) {
  GroupValues &values = valuesOf(group);
  if (!values.accumulates)
    return now;
  now = castTo(now, group.accumulator.op.getTensorType().getElementType());
  if (values.begins)
    return now;
  return nn::AddOp::create(builder, group.getLoc(), values.accumulator, now);
}

/// Returns the axes over which a group is reduced. On a data axis some gradient is partial: those
/// that are not are packed as zeros on all ranks but the first. So are all axes over which the
/// update is split, if any is: they are one. On a tensor axis, where gradients that are not partial
/// are the rule, all are partial: else they are reduced one by one.
AxisList UnitRewriter::partialAxesOf(Group &group) {
  const auto &gradients = valuesOf(group).gradients;
  auto isPartial = [&](StringRef axis) {
    auto on = [&](const Gradient &gradient) { return llvm::is_contained(gradient.axes, axis); };
    return mesh.sumsGradients(axis) ? llvm::any_of(gradients, on) : llvm::all_of(gradients, on);
  };
  SmallVector<StringRef, 2> together;
  if (StringAttr update = group.updateAxis())
    together = dist::MeshOp::membersOf(update);
  bool any = llvm::any_of(together, isPartial);
  AxisList axes;
  for (StringRef axis : sumAxes)
    if (isPartial(axis) || (any && llvm::is_contained(together, axis)))
      axes.push_back(axis);
  return axes;
}

AxisList UnitRewriter::partialIn(dist::ReductionStepAttr step, const AxisList &partial) {
  AxisList axes;
  for (StringRef axis : step.getAxes().getAsValueRange<StringAttr>())
    if (llvm::is_contained(partial, axis))
      axes.push_back(axis);
  return axes;
}

StringRef UnitRewriter::joined(AxisList axes) {
  llvm::sort(axes, [&](StringRef a, StringRef b) { return mesh.indexOf(a) < mesh.indexOf(b); });
  return axes.size() == 1 ? axes.front() : mesh.join(axes);
}

//===- Gradients that are sent in an encoding -----------------------------===//

/// Declares the state of each rounding, in the order in which reduce() rounds. A value that is
/// scattered is rounded once: by its senders. One that all ranks need is rounded a second time,
/// when their sums are gathered.
LogicalResult UnitRewriter::declareResiduals(Group &group) {
  std::vector<std::pair<std::string, int64_t>> roundings; // what follows the name; elements
  int64_t count = group.attr.getCount();
  AxisList partial = partialAxesOf(group);
  for (auto step : group.storage().getSteps().getAsRange<dist::ReductionStepAttr>()) {
    AxisList axes = partialIn(step, partial);
    if (!axes.empty() && step.getEncoding()) {
      std::string name = joined(axes).str();
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
  OpBuilder declares(builder.getContext());
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

/// Adds to a value what the last one of its kind lacked when it was sent, and keeps what this one
/// will lack.
Value UnitRewriter::withResidual(Group &group, Value value, dist::EncodingAttr encoding) {
  GroupValues &values = valuesOf(group);
  bool pending = !group.pendingResiduals.empty() && !values.begins;
  ArrayRef<Value> last = pending ? values.pendingResiduals : values.residuals;
  value = nn::AddOp::create(builder, group.getLoc(), value, last[values.newResiduals.size()]);
  values.newResiduals.push_back(
      dist::QuantizationErrorOp::create(builder, group.getLoc(), value, encoding));
  return value;
}

/// Leaves the residuals as they were in a step that is left out, as its updates leave their state.
void UnitRewriter::keepResiduals(Group &group) {
  GroupValues &values = valuesOf(group);
  OptimizerUpdateOpInterface update = values.updates.front();
  // The operand `enable` follows the states, of which there are as many as results after the
  // parameter.
  Value enable = lookup(update->getOperand(1 + update->getNumResults()));
  if (values.residuals.empty())
    return;
  Location loc = group.getLoc();
  Value leftOut = nn::NotOp::create(builder, loc, enable.getType(), enable);
  for (auto [old, made] : llvm::zip(values.residuals, values.newResiduals)) {
    // The old value comes first: the kernel works in its place.
    made = sharding::choose(builder, loc, leftOut, old, made);
  }
}

/// Sums a flat value over the axes of a step on which it is partial, and keeps the rank's slice of
/// the sum, or all of it.
Value UnitRewriter::reduce(Group &group, Value value, dist::ReductionStepAttr step,
                           const AxisList &axes) {
  Location loc = group.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  if (axes.empty()) {
    if (!step.getScatter())
      return value;
    return dist::SliceOp::create(builder, loc, type.clone({units.updatedCount(group)}), value,
                                 group.updateAxis().getValue(), 0);
  }
  StringRef axis = joined(axes);
  dist::EncodingAttr encoding = step.getEncoding();
  if (!step.getScatter() && !encoding)
    return dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, value, axis);
  if (encoding)
    value = withResidual(group, value, encoding);
  auto scattered = dist::ReduceScatterOp::create(
      builder, loc, type.clone({type.getNumElements() / mesh.getSize(axis)}), dist::Reduction::Sum,
      value, axis, 0);
  scattered.setEncodingAttr(encoding);
  if (step.getScatter())
    return scattered;
  auto gathered = dist::AllGatherOp::create(builder, loc, type,
                                            withResidual(group, scattered, encoding), axis, 0);
  gathered.setEncodingAttr(encoding);
  return gathered;
}

/// Packs the gradients of a group, partial over data axes, in the reduce type. With
/// `reduceOnce` and several micro-batches, adds the gradients of the previous ones, in
/// the accumulator's type.
LogicalResult UnitRewriter::packGradients(Group &group) {
  GroupValues &values = valuesOf(group);
  if (values.packed)
    return success();
  AxisList partialAxes = partialAxesOf(group);
  if (group.partialAxes && *group.partialAxes != partialAxes)
    return function.emitError("gradients of unit '")
           << group.unit.getSymName() << "' are partial over other axes than in another function";
  group.partialAxes = partialAxes;
  bool sumsWhole = values.accumulates && units.policy.reduceOnce;
  if (sumsWhole && !partialAxes.empty()) {
    nn::StateOp accumulator = group.accumulator.op;
    accumulator->setAttr(dist::kPartialAttr, builder.getStrArrayAttr(partialAxes));
  }
  Type element = group.attr.getReduce();
  if (sumsWhole)
    element = group.accumulator.op.getTensorType().getElementType();
  SmallVector<Value> parts;
  SmallVector<Attribute> names;
  for (auto [i, param] : llvm::enumerate(group.params)) {
    Value part = lookup(values.gradients[i].value);
    AxisList alone; // reduced one by one
    for (StringRef axis : values.gradients[i].axes)
      if (!llvm::is_contained(partialAxes, axis) && !llvm::is_contained(alone, axis))
        alone.push_back(axis);
    if (!alone.empty())
      part = dist::AllReduceOp::create(builder, part.getLoc(), dist::Reduction::Sum, part,
                                       joined(alone));
    for (StringRef axis : partialAxes)
      if (!llvm::is_contained(values.gradients[i].axes, axis))
        part = onFirstRank(builder, part.getLoc(), part, axis);
    parts.push_back(castAtOnce(builder, part, element));
    names.push_back(FlatSymbolRefAttr::get(param));
  }
  auto flat = RankedTensorType::get({group.attr.getCount()}, element);
  values.packed = dist::UnitPackOp::create(builder, group.getLoc(), flat, group.unit.getSymName(),
                                           group.index, builder.getArrayAttr(names), parts);
  if (sumsWhole)
    values.packed = addToAccumulator(group, values.packed);
  return success();
}

/// Packs the gradients of a group and reduces them over the data axes. Sets the
/// group's gradient: this rank's slice if the optimizer state is sliced, else the
/// whole gradient.
LogicalResult UnitRewriter::reduceGradients(Group &group) {
  GroupValues &values = valuesOf(group);
  if (values.gradient)
    return success();
  if (failed(packGradients(group)))
    return failure();
  Value value = castTo(values.packed, group.attr.getReduce());
  for (auto step : group.storage().getSteps().getAsRange<dist::ReductionStepAttr>())
    value = reduce(group, value, step, partialIn(step, *group.partialAxes));
  values.gradient = units.policy.reduceOnce ? value : addToAccumulator(group, value);
  return success();
}

LogicalResult UnitRewriter::reduceAllGradients() {
  for (Group &group : units.groups)
    if (valuesOf(group).updatesToCome > 0 && failed(reduceGradients(group)))
      return failure();
  return success();
}

/// Converts a reduction over the elements of gradients to one over the flat gradients. The part of
/// a sliced group is summed over the axis that slices it; a group that is whole on every rank
/// counts once.
LogicalResult UnitRewriter::rewriteReduction(Operation *op) {
  if (failed(reduceAllGradients()))
    return failure();
  DenseMap<Value, int64_t> left;
  for (Value operand : op->getOperands())
    ++left[operand];
  ElementReduction reduction(op);
  for (Group &group : units.groups) {
    GroupValues &values = valuesOf(group);
    if (!values.gradient)
      continue;
    DenseMap<Value, int64_t> needed;
    if (values.updates.empty() || !values.updates.front())
      continue;
    for (OptimizerUpdateOpInterface update : values.updates)
      ++needed[update.getGradientOperand().get()];
    if (llvm::any_of(needed, [&](auto &n) { return left.lookup(n.first) < n.second; }))
      continue;
    for (auto &[value, count] : needed)
      left[value] -= count;
    AxisList slices;
    if (StringAttr axis = group.updateAxis())
      slices.push_back(axis);
    reduction.add(slices, values.gradient);
  }
  for (Value operand : op->getOperands())
    if (int64_t &count = left[operand]; count > 0) {
      --count;
      reduction.add({}, lookup(operand));
    }
  mapping.map(op->getResult(0), reduction.build(builder));
  return success();
}

} // namespace shale
