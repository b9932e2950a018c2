//===- UnitGradients.cpp - Gradients of flat groups -----------------------===//
#include "passes/sharding/UnitGradients.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/sharding/Reshard.h"

using namespace mlir;

namespace shale {

UnitGradients::UnitGradients(Units &units, dist::MeshOp mesh, const UnitTraining &training,
                             FlatFunction &flat, UnitResiduals &residuals)
    : units(units), mesh(mesh), training(training), flat(flat), residuals(residuals),
      builder(flat.getBuilder()), reduced(units) {
  for (Group &group : units.groups)
    reduced[group].toCome = group.params.size();
}

LogicalResult UnitGradients::note(Operation *op) {
  for (Value result : op->getResults())
    for (Group *group : training.groupsOf(result)) {
      Reduced &own = reduced[*group];
      if (--own.toCome > 0)
        continue;
      bool last = training.of(*group).isUpdated();
      LogicalResult done = success();
      if (!last && units.policy.reduceOnce) {
        done = pack(*group);
        own.gradient = own.packed;
      } else if (!last || !dist::reducesAtEnd(units.policy.strategy)) {
        done = reduce(*group);
      } else if (training.of(*group).accumulates) {
        done = pack(*group);
      }
      if (failed(done))
        return failure();
    }
  return success();
}

Value UnitGradients::castTo(Value value, Type element) {
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
Value UnitGradients::addToAccumulator(Group &group, Value now) {
  if (!training.of(group).accumulates)
    return now;
  now = castTo(now, group.accumulator.op.getTensorType().getElementType());
  if (training.of(group).begins)
    return now;
  return nn::AddOp::create(builder, group.getLoc(), flat.argumentsOf(group).accumulator, now);
}

/// Sums a flat value over the axes of a step on which it is partial, and keeps the rank's slice of
/// the sum, or all of it.
Value UnitGradients::applyStep(Group &group, Value value, dist::ReductionStepAttr step) {
  AxisList axes = training.of(group).partialIn(step);
  Location loc = group.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  if (axes.empty()) {
    if (!step.getScatter())
      return value;
    return dist::SliceOp::create(builder, loc, type.clone({units.updatedCount(group)}), value,
                                 group.updateAxis().getValue(), 0);
  }
  StringRef axis = joinAxes(axes, mesh);
  dist::EncodingAttr encoding = step.getEncoding();
  if (!step.getScatter() && !encoding)
    return dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, value, axis);
  if (encoding)
    value = residuals.add(group, value, encoding);
  auto scattered = dist::ReduceScatterOp::create(
      builder, loc, type.clone({type.getNumElements() / mesh.getSize(axis)}), dist::Reduction::Sum,
      value, axis, 0);
  scattered.setEncodingAttr(encoding);
  if (step.getScatter())
    return scattered;
  auto gathered = dist::AllGatherOp::create(builder, loc, type,
                                            residuals.add(group, scattered, encoding), axis, 0);
  gathered.setEncodingAttr(encoding);
  return gathered;
}

/// Packs the gradients of a group, partial over data axes, in the reduce type. With
/// `reduceOnce` and several micro-batches, adds the gradients of the previous ones, in
/// the accumulator's type.
LogicalResult UnitGradients::pack(Group &group) {
  Value &packed = reduced[group].packed;
  if (packed)
    return success();
  const GroupTraining &own = training.of(group);
  if (group.partialAxes && *group.partialAxes != own.partialAxes)
    return flat.getOld().emitError("gradients of unit '")
           << group.unit.getSymName() << "' are partial over other axes than in another function";
  group.partialAxes = own.partialAxes;
  bool sumsWhole = own.accumulates && units.policy.reduceOnce;
  if (sumsWhole && !own.partialAxes.empty()) {
    nn::StateOp accumulator = group.accumulator.op;
    accumulator->setAttr(dist::kPartialAttr, builder.getStrArrayAttr(own.partialAxes));
  }
  Type element = group.attr.getReduce();
  if (sumsWhole)
    element = group.accumulator.op.getTensorType().getElementType();
  SmallVector<Value> parts;
  SmallVector<Attribute> names;
  for (auto [gradient, param] : llvm::zip_equal(own.gradients, group.params)) {
    Value part = flat.lookup(gradient.value);
    AxisList alone; // reduced one by one
    for (StringRef axis : gradient.axes)
      if (!llvm::is_contained(own.partialAxes, axis) && !llvm::is_contained(alone, axis))
        alone.push_back(axis);
    if (!alone.empty())
      part = dist::AllReduceOp::create(builder, part.getLoc(), dist::Reduction::Sum, part,
                                       joinAxes(alone, mesh));
    for (StringRef axis : own.partialAxes)
      if (!llvm::is_contained(gradient.axes, axis))
        part = onFirstRank(builder, part.getLoc(), part, axis);
    parts.push_back(castAtOnce(builder, part, element));
    names.push_back(FlatSymbolRefAttr::get(param));
  }
  auto type = RankedTensorType::get({group.attr.getCount()}, element);
  packed = dist::UnitPackOp::create(builder, group.getLoc(), type, group.unit.getSymName(),
                                    group.index, builder.getArrayAttr(names), parts);
  if (sumsWhole)
    packed = addToAccumulator(group, packed);
  return success();
}

LogicalResult UnitGradients::reduce(Group &group) {
  Reduced &own = reduced[group];
  if (own.gradient)
    return success();
  if (failed(pack(group)))
    return failure();
  Value value = castTo(own.packed, group.attr.getReduce());
  for (auto step : group.storage().getSteps().getAsRange<dist::ReductionStepAttr>())
    value = applyStep(group, value, step);
  own.gradient = units.policy.reduceOnce ? value : addToAccumulator(group, value);
  return success();
}

// The part of a sliced group is summed over the axis that slices it; a group that is whole on every
// rank counts once.
LogicalResult UnitGradients::rewriteReduction(Operation *op) {
  for (Group &group : units.groups)
    if (training.of(group).isUpdated() && failed(reduce(group)))
      return failure();
  DenseMap<Value, int64_t> left;
  for (Value operand : op->getOperands())
    ++left[operand];
  ElementReduction reduction(op);
  for (Group &group : units.groups) {
    if (!of(group) || !training.of(group).isUpdated())
      continue;
    DenseMap<Value, int64_t> needed;
    for (OptimizerUpdateOpInterface update : training.of(group).updates)
      ++needed[update.getGradientOperand().get()];
    if (llvm::any_of(needed, [&](auto &n) { return left.lookup(n.first) < n.second; }))
      continue;
    for (auto &[value, count] : needed)
      left[value] -= count;
    AxisList slices;
    if (StringAttr axis = group.updateAxis())
      slices.push_back(axis);
    reduction.add(slices, of(group));
  }
  for (Value operand : op->getOperands())
    if (int64_t &count = left[operand]; count > 0) {
      --count;
      reduction.add({}, flat.lookup(operand));
    }
  flat.map(op->getResult(0), reduction.build(builder));
  return success();
}

} // namespace shale
