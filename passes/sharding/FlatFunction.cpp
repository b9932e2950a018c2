//===- FlatFunction.cpp - A function on flat groups, while it is built ----===//
#include "passes/sharding/FlatFunction.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Cast.h"
#include "lib/Analysis/Blocks.h"

using namespace mlir;

namespace shale {

//===- Signature ----------------------------------------------------------===//

static FlatSymbolRefAttr stateOf(func::FuncOp function, unsigned argument) {
  return function.getArgAttrOfType<FlatSymbolRefAttr>(argument, nn::kStateAttr);
}

bool FlatFunction::isOutside(FlatSymbolRefAttr symbol) {
  nn::StateOp state = nn::getState(old, symbol);
  return state && isOutsideUnits(state);
}

DictionaryAttr FlatFunction::stateAttrs(nn::StateOp state) {
  return builder.getDictionaryAttr(
      builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(state)));
}

FlatFunction::FlatFunction(func::FuncOp old, Units &units, const UnitTraining &training)
    : old(old), units(units), builder(old.getContext(), &listener), groupArguments(units),
      wholes(units) {
  std::vector<Argument> arguments;
  size_t flatAt = ~size_t(0);
  for (BlockArgument argument : old.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (auto symbol = stateOf(old, index); symbol && !isOutside(symbol)) {
      flatAt = std::min(flatAt, arguments.size());
      if (auto found = units.find(symbol.getValue()); found.first) // else optimizer state
        parameters[argument] = found;
      continue;
    }
    DictionaryAttr attrs = old.getArgAttrDict(index);
    arguments.push_back({cast<RankedTensorType>(argument.getType()),
                         attrs ? attrs : builder.getDictionaryAttr({}), argument.getLoc(),
                         [this, argument](Value value) { mapping.map(argument, value); }});
  }
  std::vector<Argument> flat = makeFlatArguments(training);
  if (!flat.empty())
    arguments.insert(arguments.begin() + flatAt, flat.begin(), flat.end());
  create(arguments);
}

std::vector<FlatFunction::Argument> FlatFunction::makeFlatArguments(const UnitTraining &training) {
  std::vector<Argument> arguments;
  auto add = [&](nn::StateOp state, int64_t count, std::function<void(Value)> bind) {
    arguments.push_back({RankedTensorType::get({count}, state.getTensorType().getElementType()),
                         stateAttrs(state), withValueName(state.getLoc(), state.getSymName()),
                         std::move(bind)});
  };
  auto addOne = [&](const FlatState &state, Value &value) {
    add(state.op, units.localCount(state), [&value](Value made) { value = made; });
  };
  auto addWhole = [&](nn::StateOp state, SmallVectorImpl<Value> &values) {
    add(state, state.getTensorType().getNumElements(),
        [&values](Value made) { values.push_back(made); });
  };
  llvm::SmallPtrSet<Group *, 8> used;
  for (const auto &[argument, place] : parameters)
    used.insert(place.first);
  for (Group &group : units.groups) {
    if (!used.contains(&group))
      continue;
    // If there is a copy, only the update reads the parameters themselves.
    if (!group.copy.op || training.of(group).isUpdated())
      addOne(group.param, groupArguments[group].atRest);
    if (group.copy.op)
      addOne(group.copy, groupArguments[group].copy);
  }
  for (Group &group : units.groups)
    if (training.of(group).accumulates)
      addOne(group.accumulator, groupArguments[group].accumulator);
  for (Group &group : units.groups) {
    const GroupTraining &own = training.of(group);
    if (!own.reduces(units.policy))
      continue;
    if (own.begins || own.isUpdated())
      for (nn::StateOp residual : group.residuals)
        addWhole(residual, groupArguments[group].residuals);
    for (nn::StateOp pending : group.pendingResiduals)
      addWhole(pending, groupArguments[group].pendingResiduals);
  }
  size_t roles = 0;
  for (Group &group : units.groups)
    roles = std::max(roles, group.moments.size());
  for (size_t role = 0; role < roles; ++role)
    for (Group &group : units.groups)
      if (training.of(group).isUpdated() && role < group.moments.size()) {
        SmallVector<Value> &moments = groupArguments[group].moments;
        add(group.moments[role].op, units.localCount(group.moments[role]),
            [&moments](Value made) { moments.push_back(made); });
      }
  return arguments;
}

void FlatFunction::create(ArrayRef<Argument> arguments) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  for (const Argument &argument : arguments) {
    types.push_back(argument.type);
    attrs.push_back(argument.attrs);
  }
  builder.setInsertionPoint(old);
  fresh = func::FuncOp::create(builder, old.getLoc(), old.getName(),
                               builder.getFunctionType(types, {}));
  fresh.setAllArgAttrs(attrs);
  Block *body = fresh.addEntryBlock();
  for (auto [argument, value] : llvm::zip(arguments, body->getArguments())) {
    value.setLoc(argument.loc);
    argument.bind(value);
  }
  builder.setInsertionPointToEnd(body);
}

LogicalResult FlatFunction::build(llvm::function_ref<LogicalResult(Operation *)> rebuild) {
  return rebuildFunction(old, fresh, listener, [&](Operation *op) -> LogicalResult {
    LogicalResult done = rebuild(op);
    return success(succeeded(done) && !failedRead);
  });
}

void FlatFunction::returnFrom(Location loc, ValueRange results, ArrayRef<DictionaryAttr> attrs) {
  sharding::returnFrom(fresh, builder, loc, results);
  fresh.setAllResultAttrs(attrs);
}

//===- Values -------------------------------------------------------------===//

/// Returns what the views of a group's parameters read: its copy, or the parameters at rest. Those
/// that are split are gathered; the gather, and the cast of what it rounds, are marked for
/// recompute unless `keepGathered`.
Value FlatFunction::wholeOf(Group &group) {
  Value &whole = wholes[group];
  if (whole)
    return whole;
  whole = groupArguments[group].copy;
  if (whole)
    return whole;
  whole = groupArguments[group].atRest;
  if (!group.isGathered())
    return whole;
  auto type = RankedTensorType::get({group.attr.getCount()}, group.attr.getWire());
  // A group that each rank stores whole, because an axis splits its parameters, is only cast.
  if (StringAttr axis = group.unit.getAxisOf(group.attr))
    whole =
        dist::UnitGatherOp::create(builder, group.getLoc(), type, whole, group.unit.getSymName(),
                                   group.index, axis.getValue(), group.storage().getGather());
  else
    whole = nn::CastOp::create(builder, group.getLoc(), type, whole);
  SmallVector<Operation *, 2> made{whole.getDefiningOp()};
  if (Type used = group.storage().getUse(); used != group.attr.getWire()) {
    whole = nn::CastOp::create(builder, group.getLoc(), type.clone(used), whole);
    made.push_back(whole.getDefiningOp());
  }
  if (units.policy.gathersAgain())
    for (Operation *op : made)
      op->setAttr(mem::kRecomputeAttr, builder.getUnitAttr());
  return whole;
}

/// Builds the view of a parameter that its users read. Locations of gathers and views have the
/// names of the unit and of the parameter.
Value FlatFunction::view(Group &group, int64_t place) {
  Location loc = group.params[place].getLoc();
  auto segment = cast<dist::SegmentAttr>(group.attr.getSegments()[place]);
  Value whole = wholeOf(group);
  return dist::UnitViewOp::create(
      builder, withValueName(loc, segment.getParam().getValue()),
      RankedTensorType::get(segment.getShape(), group.storage().getUse()), whole,
      group.unit.getSymName(), group.index, segment.getParam().getValue());
}

Value FlatFunction::lookup(Value value) {
  if (Value made = mapping.lookupOrNull(value))
    return made;
  if (auto it = parameters.find(value); it != parameters.end())
    mapping.map(value, view(*it->second.first, it->second.second));
  else if (Operation *op = value.getDefiningOp())
    copy(op); // absorbed, and read in another way, too
  else
    mapping.map(value, refuseRead(cast<BlockArgument>(value)));
  return mapping.lookup(value);
}

/// Reports that an op other than an update reads an argument that flat optimizer state replaces.
/// Returns a value in its place, so that the rewriting of the op can end.
Value FlatFunction::refuseRead(BlockArgument argument) {
  if (!failedRead)
    listener.current->emitOpError("reads ")
        << stateOf(old, argument.getArgNumber())
        << ", state that only the update or the accumulation of its parameter may read";
  failedRead = true;
  return nn::splat(builder, argument.getLoc(), cast<RankedTensorType>(argument.getType()), 0);
}

/// Whether `op` casts a parameter that is stored in a wider type than it is used
/// in. The view of the gathered group, or of the copy, has the wire type already.
bool FlatFunction::isViewCast(Operation *op) {
  if (!isa<nn::CastOp>(op))
    return false;
  auto it = parameters.find(op->getOperand(0));
  if (it == parameters.end())
    return false;
  const Group &group = *it->second.first;
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

void FlatFunction::copy(Operation *op) {
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

} // namespace shale
