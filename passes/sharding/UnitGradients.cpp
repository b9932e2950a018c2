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
      if (!last && units.reduceOnce) {
        done = packGradients(*group);
        values.gradient = values.packed;
      } else if (!last || !dist::reducesAtEnd(units.strategy)) {
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
/// that are not are packed as zeros on all ranks but the first. On a tensor axis, where gradients
/// that are not partial are the rule, all are partial: else they are reduced one by one.
AxisList UnitRewriter::partialAxesOf(Group &group) {
  AxisList axes;
  for (StringRef axis : sumAxes) {
    auto isPartial = [&](const Gradient &gradient) {
      return llvm::is_contained(gradient.axes, axis);
    };
    const auto &gradients = valuesOf(group).gradients;
    if (mesh.sumsGradients(axis) ? llvm::any_of(gradients, isPartial)
                                 : llvm::all_of(gradients, isPartial))
      axes.push_back(axis);
  }
  return axes;
}

//===- Gradients that are sent as 8-bit integers --------------------------===//

/// Declares the state of each rounding, in the order in which reduceOver() rounds. A value that is
/// scattered is rounded once: by its senders. One that all ranks need is rounded a second time,
/// when their sums are gathered.
LogicalResult UnitRewriter::declareResiduals(Group &group) {
  std::vector<std::pair<std::string, int64_t>> roundings; // what follows the name; elements
  int64_t count = group.attr.getCount();
  AxisList axes = partialAxesOf(group);
  if (group.updatesSlice) {
    if (llvm::is_contained(axes, units.axis) && sendsQuantized(group, units.axis))
      roundings.push_back({units.axis.str(), count});
    count /= units.axisSize;
  }
  for (StringRef axis : axes)
    if ((!group.updatesSlice || axis != units.axis) && sendsQuantized(group, axis)) {
      roundings.push_back({axis.str(), count});
      roundings.push_back({axis.str() + ".sum", count / mesh.getSize(axis)});
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
  if (group.accumulator.op && !units.reduceOnce)
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
Value UnitRewriter::withResidual(Group &group, Value value) {
  GroupValues &values = valuesOf(group);
  bool pending = !group.pendingResiduals.empty() && !values.begins;
  ArrayRef<Value> last = pending ? values.pendingResiduals : values.residuals;
  value = nn::AddOp::create(builder, group.getLoc(), value, last[values.newResiduals.size()]);
  values.newResiduals.push_back(dist::QuantizationErrorOp::create(builder, group.getLoc(), value));
  return value;
}

/// Leaves the residuals as they were in a step that is left out, as its updates leave their state.
void UnitRewriter::keepResiduals(Group &group) {
  GroupValues &values = valuesOf(group);
  OptimizerUpdateOpInterface update = values.updates.front();
  // It follows the states, of which there are as many as results after the parameter.
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

/// Sums a flat value over a data axis, and keeps the rank's slice of the sum, or all of it.
Value UnitRewriter::reduceOver(Group &group, Value value, StringRef axis, bool scatter) {
  Location loc = group.getLoc();
  bool quantized = sendsQuantized(group, axis);
  if (!scatter && !quantized)
    return dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, value, axis);
  auto type = cast<RankedTensorType>(value.getType());
  if (quantized)
    value = withResidual(group, value);
  auto scattered = dist::ReduceScatterOp::create(
      builder, loc, type.clone({type.getNumElements() / mesh.getSize(axis)}), dist::Reduction::Sum,
      value, axis, 0);
  scattered.setQuantized(quantized);
  if (scatter)
    return scattered;
  auto gathered =
      dist::AllGatherOp::create(builder, loc, type, withResidual(group, scattered), axis, 0);
  gathered.setQuantized(true);
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
  bool sumsWhole = values.accumulates && units.reduceOnce;
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
    for (StringRef axis : values.gradients[i].axes)
      if (!llvm::is_contained(partialAxes, axis))
        part = dist::AllReduceOp::create(builder, part.getLoc(), dist::Reduction::Sum, part, axis);
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
  Location loc = group.getLoc();
  Value value = castTo(values.packed, group.attr.getReduce());
  auto sliced =
      RankedTensorType::get({group.attr.getCount() / units.axisSize}, group.attr.getReduce());
  // Tensor axes first: groups that are partial on them are small, and few axes remain to be
  // bucketed.
  for (StringRef axis : *group.partialAxes)
    if (mesh.splitsValues(axis))
      value = dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, value, axis);
  // Reduce over the storage axis first: the other axes then reduce less data.
  if (group.updatesSlice) {
    if (llvm::is_contained(*group.partialAxes, units.axis))
      value = reduceOver(group, value, units.axis, /*scatter=*/true);
    else
      value = dist::SliceOp::create(builder, loc, sliced, value, units.axis, 0);
  }
  for (StringRef axis : *group.partialAxes)
    if (mesh.sumsGradients(axis) && (!group.updatesSlice || axis != units.axis))
      value = reduceOver(group, value, axis, /*scatter=*/false);
  values.gradient = units.reduceOnce ? value : addToAccumulator(group, value);
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
    reduction.add(group.updatesSlice ? AxisList{units.axis} : AxisList(), values.gradient);
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
