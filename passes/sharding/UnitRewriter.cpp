//===- UnitRewriter.cpp - Moves a function's parameters into units --------===//
#include "passes/sharding/UnitRewriter.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Blocks.h"

using namespace mlir;

namespace shale {

UnitRewriter::UnitRewriter(func::FuncOp function, dist::MeshOp mesh, Units &units)
    : function(function), mesh(mesh), units(units), builder(function.getContext(), &listener),
      groups(units.groups.size()) {
  sumAxes = axesByPriority(mesh);
}

//===- Signature ----------------------------------------------------------===//

static FlatSymbolRefAttr stateOf(func::FuncOp function, unsigned argument) {
  return function.getArgAttrOfType<FlatSymbolRefAttr>(argument, nn::kStateAttr);
}

bool UnitRewriter::isOutside(FlatSymbolRefAttr symbol) {
  nn::StateOp state = nn::getState(function, symbol);
  return state && isOutsideUnits(state);
}

/// Creates the new function. Arguments that are not states keep their order. Flat
/// states take the place of the first state: parameters group by group, gradient
/// accumulators, then optimizer state by role.
void UnitRewriter::makeSignature() {
  struct Argument {
    RankedTensorType type;
    DictionaryAttr attrs;
    Location loc;
    std::function<void(Value)> bind;
  };
  SmallVector<Argument> arguments, flat;
  auto addFlat = [&](const FlatState &state, Group &group, std::function<void(Value)> bind) {
    nn::StateOp op = state.op;
    flat.push_back(
        {RankedTensorType::get({units.localCount(state)}, op.getTensorType().getElementType()),
         builder.getDictionaryAttr(
             builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(op))),
         withValueName(op.getLoc(), op.getSymName()), std::move(bind)});
  };
  size_t flatAt = ~size_t(0);
  llvm::SmallPtrSet<Group *, 8> used;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (auto symbol = stateOf(function, index); symbol && !isOutside(symbol)) {
      flatAt = std::min<size_t>(flatAt, arguments.size());
      auto [group, place] = units.find(symbol.getValue());
      if (group) { // else optimizer state
        used.insert(group);
        states[argument] = {group, place};
      }
      continue;
    }
    DictionaryAttr attrs = function.getArgAttrDict(index);
    arguments.push_back({cast<RankedTensorType>(argument.getType()),
                         attrs ? attrs : builder.getDictionaryAttr({}), argument.getLoc(),
                         [this, argument](Value value) { mapping.map(argument, value); }});
  }
  for (Group &group : units.groups) {
    if (!used.contains(&group))
      continue;
    // If there is a copy, only the update reads the parameters themselves.
    if (!group.copy.op || valuesOf(group).updatesToCome > 0)
      addFlat(group.param, group, [&](Value value) { valuesOf(group).atRest = value; });
    if (group.copy.op)
      addFlat(group.copy, group, [&](Value value) { valuesOf(group).whole = value; });
  }
  for (Group &group : units.groups)
    if (valuesOf(group).accumulates)
      addFlat(group.accumulator, group, [&](Value value) { valuesOf(group).accumulator = value; });
  for (Group &group : units.groups)
    if (reducesIn(group)) {
      auto add = [&](nn::StateOp state, SmallVectorImpl<Value> &values) {
        flat.push_back({state.getTensorType(),
                        builder.getDictionaryAttr(
                            builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(state))),
                        withValueName(state.getLoc(), state.getSymName()),
                        [&values](Value value) { values.push_back(value); }});
      };
      GroupValues &values = valuesOf(group);
      if (values.begins || values.updatesToCome > 0)
        for (nn::StateOp residual : group.residuals)
          add(residual, values.residuals);
      for (nn::StateOp pending : group.pendingResiduals)
        add(pending, values.pendingResiduals);
    }
  size_t roles = 0;
  for (Group &group : units.groups)
    roles = std::max(roles, group.moments.size());
  for (size_t role = 0; role < roles; ++role)
    for (Group &group : units.groups)
      if (valuesOf(group).updatesToCome > 0 && role < group.moments.size())
        addFlat(group.moments[role], group,
                [&](Value value) { valuesOf(group).moments.push_back(value); });
  if (!flat.empty())
    arguments.insert(arguments.begin() + flatAt, flat.begin(), flat.end());

  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  for (Argument &argument : arguments) {
    types.push_back(argument.type);
    attrs.push_back(argument.attrs);
  }
  builder.setInsertionPoint(function);
  fresh = func::FuncOp::create(builder, function.getLoc(), function.getName(),
                               builder.getFunctionType(types, {}));
  fresh.setAllArgAttrs(attrs);
  Block *body = fresh.addEntryBlock();
  for (auto [argument, value] : llvm::zip(arguments, body->getArguments())) {
    value.setLoc(argument.loc);
    argument.bind(value);
  }
  builder.setInsertionPointToEnd(body);
}

/// Whether all users of the op's result work on gradients. Then the flat group takes the op's
/// place.
static bool feedsGradientsOnly(Operation *op, const llvm::DenseSet<Operation *> &absorbed) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return absorbed.contains(user) || isa<GradientPartsOpInterface>(user);
  });
}

/// Returns the gradient before its sums over axes that do not split its parameter, and before its
/// cast to the reduce type. These are delayed until the gradient is packed.
UnitRewriter::Gradient UnitRewriter::beforeSums(Value gradient, const Group &group) {
  Gradient found{gradient, {}};
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
    if (feedsGradientsOnly(op, absorbed))
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

LogicalResult UnitRewriter::collectUpdates() {
  for (Group &group : units.groups) {
    valuesOf(group).updates.resize(group.params.size());
    valuesOf(group).gradients.resize(group.params.size());
  }
  auto addGradient = [&](Group *group, int64_t place, const Gradient &gradient) {
    valuesOf(*group).gradients[place] = gradient;
    ++valuesOf(*group).gradientsToCome;
    gradients[gradient.value].push_back(group);
  };
  for (auto accumulate : function.getOps<GradientAccumulationOpInterface>()) {
    auto [group, place] = units.find(accumulate.getParameter());
    if (!group || !group->accumulator.op || valuesOf(*group).gradients[place].value)
      return accumulate->emitOpError("parameter '")
             << accumulate.getParameter() << "' has no accumulator, or is accumulated twice";
    valuesOf(*group).accumulates = true;
    valuesOf(*group).begins = !accumulate.getEarlierSum();
    addGradient(group, place, beforeSums(accumulate.getGradientOperand().get(), *group));
  }
  for (auto update : function.getOps<OptimizerUpdateOpInterface>()) {
    auto argument = cast<BlockArgument>(update.getParameterOperand().get());
    auto symbol = stateOf(function, argument.getArgNumber());
    auto [group, place] = units.find(symbol.getValue());
    GroupValues &values = valuesOf(*group);
    values.updates[place] = update;
    ++values.updatesToCome;
    Gradient gradient = beforeSums(update.getGradientOperand().get(), *group);
    if (!values.gradients[place].value)
      addGradient(group, place, gradient);
    else if (!gradient.value.getDefiningOp<GradientAccumulationOpInterface>())
      return update->emitOpError("must read the sum of the gradients of all micro-batches");
  }
  for (Group &group : units.groups) {
    int64_t updates = valuesOf(group).updatesToCome,
            count = std::max(updates, valuesOf(group).gradientsToCome), all = group.params.size();
    if ((count != 0 && count != all) || (updates != 0 && updates != all))
      return function.emitError("updates or accumulates ")
             << count << " of the " << group.params.size() << " parameters of group '"
             << group.attr.getName().getValue() << "' of unit '" << group.unit.getSymName() << "'";
  }
  return success();
}

//===- Values -------------------------------------------------------------===//

/// Builds the view of a parameter that its users read. The group is gathered at its
/// first use; the gather, and the cast of what it rounds, are marked for recompute unless
/// `keepGathered`. Locations of gathers and views have the names of the unit and of the parameter.
Value UnitRewriter::view(Group &group, int64_t place) {
  GroupValues &values = valuesOf(group);
  Location loc = group.params[place].getLoc();
  Type used = group.storage().getUse();
  if (!values.whole) {
    values.whole = values.atRest;
    if (group.isGathered()) {
      auto gather = dist::UnitGatherOp::create(
          builder, group.getLoc(),
          RankedTensorType::get({group.attr.getCount()}, group.attr.getWire()), values.atRest,
          group.unit.getSymName(), group.index, units.policy.axis.getValue(),
          group.storage().getGather());
      values.whole = gather;
      if (used != group.attr.getWire())
        values.whole =
            nn::CastOp::create(builder, group.getLoc(), gather.getType().clone(used), gather);
      if (units.policy.gathersAgain())
        for (Operation *op : {gather.getOperation(), values.whole.getDefiningOp()})
          op->setAttr(mem::kRecomputeAttr, builder.getUnitAttr());
    }
  }
  auto segment = cast<dist::SegmentAttr>(group.attr.getSegments()[place]);
  return dist::UnitViewOp::create(builder, withValueName(loc, segment.getParam().getValue()),
                                  RankedTensorType::get(segment.getShape(), used), values.whole,
                                  group.unit.getSymName(), group.index,
                                  segment.getParam().getValue());
}

/// Returns the value of the new function that takes the place of `old`.
Value UnitRewriter::lookup(Value old) {
  if (Value value = mapping.lookupOrNull(old))
    return value;
  if (auto state = states.find(old); state != states.end())
    mapping.map(old, view(*state->second.first, state->second.second));
  else if (Operation *op = old.getDefiningOp())
    rewriteOp(op); // absorbed, and read in another way, too
  else
    mapping.map(old, refuseRead(cast<BlockArgument>(old)));
  return mapping.lookup(old);
}

/// Reports that an op other than an update reads an argument that flat optimizer state replaces.
/// Returns a value in its place, so that the rewriting of the op can end.
Value UnitRewriter::refuseRead(BlockArgument argument) {
  if (!failedRead)
    listener.current->emitOpError("reads ")
        << stateOf(function, argument.getArgNumber())
        << ", state that only the update or the accumulation of its parameter may read";
  failedRead = true;
  return nn::splat(builder, argument.getLoc(), cast<RankedTensorType>(argument.getType()), 0);
}

//===- Ops ----------------------------------------------------------------===//

/// Whether `op` casts a parameter that is stored in a wider type than it is used
/// in. The view of the gathered group, or of the copy, has the wire type already.
bool UnitRewriter::isViewCast(Operation *op) {
  if (!isa<nn::CastOp>(op))
    return false;
  auto state = states.find(op->getOperand(0));
  if (state == states.end())
    return false;
  const Group &group = *state->second.first;
  return group.storage().getUse() != group.attr.getType();
}

/// Whether an op moves or rounds what is gathered, and nothing else: its result is a copy of
/// parameters.
static bool copiesGathered(Operation *op) {
  auto moves = dyn_cast<PrecisionOpInterface>(op);
  if (!(moves && moves.movesOnly()) && !isa<nn::CastOp>(op))
    return false;
  return op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [](Value operand) {
           Operation *source = operand.getDefiningOp();
           if (isa_and_nonnull<dist::UnitViewOp>(source))
             return source->getOperand(0).getDefiningOp() != nullptr;
           return source && source->hasAttr(mem::kRecomputeAttr) &&
                  !isa<dist::UnitGatherOp>(source);
         });
}

void UnitRewriter::rewriteOp(Operation *op) {
  for (Value operand : op->getOperands())
    lookup(operand);
  if (isViewCast(op)) {
    mapping.map(op->getResult(0), mapping.lookup(op->getOperand(0)));
    return;
  }
  Operation *made = builder.clone(*op, mapping);
  // A copy of parameters that are gathered again for the backward pass is recomputed, not kept.
  if (units.policy.gathersAgain() && isForward(op) && copiesGathered(made))
    made->setAttr(mem::kRecomputeAttr, builder.getUnitAttr());
}

/// Returns flat states in the order of the arguments, in the place of the first state.
LogicalResult UnitRewriter::rewriteReturn(Operation *op) {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  auto add = [&](Value value, DictionaryAttr attr) {
    results.push_back(value);
    attrs.push_back(attr);
  };
  auto addDeclared = [&](nn::StateOp declared, Value value) {
    add(value, builder.getDictionaryAttr(
                   builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(declared))));
  };
  auto addState = [&](const FlatState &state, Value value) { addDeclared(state.op, value); };
  bool statesAdded = false;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    if (!symbol || isOutside(symbol)) {
      DictionaryAttr attr = function.getResultAttrDict(index);
      add(lookup(operand.get()), attr ? attr : builder.getDictionaryAttr({}));
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
        if (Value sum = valuesOf(group).gradient)
          addState(group.accumulator, sum);
    for (Group &group : units.groups)
      for (auto [state, value] : llvm::zip(accumulated ? group.pendingResiduals : group.residuals,
                                           valuesOf(group).newResiduals))
        addDeclared(state, value);
    size_t roles = 0;
    for (Group &group : units.groups)
      roles = std::max(roles, valuesOf(group).results.size());
    for (size_t role = 0; role < roles; ++role)
      for (Group &group : units.groups) {
        if (role < valuesOf(group).results.size())
          addState(role == 0 ? group.param : group.moments[role - 1],
                   valuesOf(group).results[role]);
        if (role == 0 && valuesOf(group).newCopy)
          addState(group.copy, valuesOf(group).newCopy);
      }
  }
  returnFrom(fresh, builder, op->getLoc(), results);
  fresh.setAllResultAttrs(attrs);
  return success();
}

LogicalResult UnitRewriter::run() {
  if (failed(collectUpdates()))
    return failure();
  for (Group &group : units.groups)
    if (reducesIn(group) && failed(declareResiduals(group)))
      return failure();
  makeSignature();
  return rebuildFunction(function, fresh, listener, [&](Operation *op) -> LogicalResult {
    LogicalResult done = rewrite(op);
    return success(succeeded(done) && !failedRead);
  });
}

LogicalResult UnitRewriter::rewrite(Operation *op) {
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
    return rewriteUpdate(update);
  if (isa<ElementReductionOpInterface>(op))
    return rewriteReduction(op);
  if (op->hasTrait<OpTrait::IsTerminator>())
    return rewriteReturn(op);
  // Sums and updates are built for flat groups, once the gradients of a group are complete.
  if (isa<GradientAccumulationOpInterface>(op) || absorbed.contains(op))
    return success();
  rewriteOp(op);
  return noteGradients(op);
}

} // namespace shale
