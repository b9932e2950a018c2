//===- UnitUpdates.cpp - Updates of flat groups ---------------------------===//
#include "passes/sharding/UnitUpdates.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "passes/sharding/WholeParameters.h"

using namespace mlir;

namespace shale {

/// Returns the element of the group at which this rank's slice begins, or null if the rank updates
/// the whole group.
Value UnitUpdates::slicedOffset(Group &group) {
  if (!group.updateAxis())
    return {};
  Location loc = withValueName(group.unit.getLoc(), "offset");
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value coordinate = dist::CoordinateOp::create(builder, loc, scalar, group.updateAxis());
  return nn::MulOp::create(builder, loc, coordinate,
                           nn::splat(builder, loc, scalar, units.updatedCount(group)));
}

/// Returns the step by which the group is rounded. If tensor axes split its parameters, the number
/// of the rank's piece is added as the high word, since the elements of all pieces have the same
/// numbers.
Value UnitUpdates::stepOfPiece(Group &group, Value step) {
  Location loc = group.getLoc();
  auto type = cast<RankedTensorType>(step.getType());
  Value piece;
  for (auto axis : group.attr.getAxes().getAsRange<StringAttr>()) {
    Value own = dist::CoordinateOp::create(builder, loc, type, axis.getValue());
    if (piece) {
      Value size = nn::splat(builder, loc, type, double(mesh.getSize(axis.getValue())));
      piece = nn::MulOp::create(builder, loc, piece, size);
      own = nn::AddOp::create(builder, loc, type, piece, own);
    }
    piece = own;
  }
  if (!piece)
    return step;
  piece = nn::MulOp::create(builder, loc, piece, nn::splat(builder, loc, type, 0x1p32));
  return nn::AddOp::create(builder, loc, type, step, piece);
}

/// Returns the operands of the update of a group: those that the updates of its parameters share,
/// and its own.
FailureOr<SmallVector<Value>> UnitUpdates::readOperands(Group &group, Value param, Value gradient) {
  ArrayRef<OptimizerUpdateOpInterface> updates = training.of(group).updates;
  OptimizerUpdateOpInterface first = updates.front();
  SmallVector<OpOperand *> own = first.getOwnOperands();
  SmallVector<Value> operands;
  for (OpOperand &operand : first->getOpOperands()) {
    if (llvm::is_contained(own, &operand)) {
      operands.push_back(param); // replaced below
      continue;
    }
    for (OptimizerUpdateOpInterface other : updates)
      if (other->getName() != first->getName() ||
          other->getNumOperands() != first->getNumOperands() ||
          other->getOperand(operand.getOperandNumber()) != operand.get())
        return other->emitOpError("differs from the update of another "
                                  "parameter of group '")
               << group.attr.getName().getValue() << "' of unit '" << group.unit.getSymName()
               << "'";
    operands.push_back(flat.lookup(operand.get()));
  }
  if (auto rounded = dyn_cast<nn::RoundedUpdateOpInterface>(first.getOperation());
      rounded && rounded.isRoundedStochastically()) {
    Value &step = operands[rounded.getSeedNumber() + 1];
    step = stepOfPiece(group, step);
  }
  operands[first.getGradientOperand().getOperandNumber()] = gradient;
  for (auto [operand, moment] :
       llvm::zip(first.getStateOperands(), flat.argumentsOf(group).moments))
    operands[operand->getOperandNumber()] = moment;
  return operands;
}

/// Clones the update for the flat group or its slice.
void UnitUpdates::buildElementwise(Group &group, ValueRange operands) {
  OptimizerUpdateOpInterface first = training.of(group).firstUpdate();
  SmallVector<Attribute> segments;
  for (auto segment : group.attr.getSegments().getAsRange<dist::SegmentAttr>())
    segments.push_back(nn::UpdateRangeAttr::get(builder.getContext(), segment.getOffset(),
                                                segment.getCount(), segment.getFactors()));
  Value offset = slicedOffset(group);
  SmallVector<Type> types{operands[first.getParameterOperand().getOperandNumber()].getType()};
  for (Value moment : flat.argumentsOf(group).moments)
    types.push_back(moment.getType());
  OperationState state(group.unit.getLoc(), first->getName(), operands, types, first->getAttrs());
  state.propertiesAttr = first->getPropertiesAsAttribute();
  auto made = cast<OptimizerUpdateOpInterface>(builder.create(state));
  made.setSegments(offset, builder.getArrayAttr(segments));
  updated[group].results.assign(made->result_begin(), made->result_end());
}

/// Lets an update that is not elementwise build its ops for the flat group or its slice.
LogicalResult UnitUpdates::buildTogether(Group &group, ValueRange operands) {
  auto update = cast<GroupUpdateOpInterface>(training.of(group).firstUpdate().getOperation());
  WholeParameters parameters(builder, group, units, mesh);
  if (update.gathersParameters() && failed(parameters.findWholes()))
    return failure();
  if (update->hasTrait<nn::NeedsMeansOnly>() && failed(parameters.findFirstParts()))
    return failure();
  SmallVector<GroupUpdate::Segment> segments;
  for (auto [i, segment] :
       llvm::enumerate(group.attr.getSegments().getAsRange<dist::SegmentAttr>())) {
    const std::vector<int64_t> &places = group.moments.front().places;
    segments.push_back({segment.getOffset(), segment.getShape().asArrayRef(), segment.getFactors(),
                        places.empty() ? segment.getOffset() : places[i]});
  }
  bool isSplit = !group.attr.getAxes().empty();
  auto sum = [&](ValueRange parts) { return parameters.sum(parts); };
  auto gather = [&](Value slice) { return parameters.gather(slice); };
  auto divide = [&](ValueRange matrices, llvm::function_ref<Value(Value)> function) {
    return parameters.divide(matrices, function);
  };
  auto take = [&](ValueRange tensors) { return parameters.take(tensors); };
  updated[group].results =
      update.buildGroupUpdate(builder, {group.unit.getLoc(), operands, slicedOffset(group),
                                        segments, isSplit, sum, gather, divide, take});
  return success();
}

/// Numbers the elements of each parameter of a group that is rounded stochastically.
void UnitUpdates::numberElements(Group &group, ValueRange operands) {
  ArrayRef<OptimizerUpdateOpInterface> updates = training.of(group).updates;
  OptimizerUpdateOpInterface first = updates.front();
  auto like = dyn_cast<nn::RoundedUpdateOpInterface>(first.getOperation());
  if (!like || !like.isRoundedStochastically())
    return;
  llvm::StringMap<int64_t> numbers;
  for (OptimizerUpdateOpInterface update : updates) {
    nn::StateOp param = nn::getState(cast<BlockArgument>(update.getParameterOperand().get()));
    numbers[param.getSymName()] =
        cast<nn::RoundedUpdateOpInterface>(update.getOperation()).getRoundedNumber(0);
  }
  SmallVector<int64_t> inOrder;
  for (nn::StateOp param : group.params)
    inOrder.push_back(numbers.lookup(param.getSymName()));
  unsigned seed = like.getSeedNumber();
  updated[group].results[0].getDefiningOp<nn::RoundedUpdateOpInterface>().roundStochastically(
      operands[seed], operands[seed + 1], inOrder);
}

LogicalResult UnitUpdates::build(Group &group, Value gradient) {
  const GroupArguments &arguments = flat.argumentsOf(group);
  Location loc = group.unit.getLoc();
  Value param = arguments.atRest;
  bool sliceParam = group.updateAxis() && !group.param.axis;
  if (sliceParam)
    param = dist::SliceOp::create(
        builder, loc, RankedTensorType::get({units.updatedCount(group)}, group.attr.getType()),
        param, group.updateAxis().getValue(), 0);
  FailureOr<SmallVector<Value>> operands = readOperands(group, param, gradient);
  if (failed(operands))
    return failure();
  if (isa<ElementwiseUpdateOpInterface>(training.of(group).firstUpdate().getOperation()))
    buildElementwise(group, *operands);
  else if (failed(buildTogether(group, *operands)))
    return failure();
  numberElements(group, *operands);
  auto &[results, copy] = updated[group];
  if (sliceParam)
    results[0] = dist::AllGatherOp::create(builder, loc, arguments.atRest.getType(), results[0],
                                           group.updateAxis().getValue(), 0);
  if (group.copy.op) {
    // Rounded before it is sent.
    auto type = cast<RankedTensorType>(results[0].getType());
    copy = nn::CastOp::create(builder, loc, type.clone(group.attr.getWire()), results[0]);
    if (group.param.axis)
      copy = dist::AllGatherOp::create(builder, loc, arguments.copy.getType(), copy,
                                       group.param.axis.getValue(), 0);
  }
  return success();
}

} // namespace shale
