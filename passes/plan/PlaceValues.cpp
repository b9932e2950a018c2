//===- PlaceValues.cpp - Which values share bytes -------------------------===//
#include "passes/plan/PlaceValues.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Aliases.h"
#include "passes/plan/Categories.h"
#include "passes/plan/OverwriteRules.h"

using namespace mlir;
using namespace shale;

namespace {
/// Places the values of one function, op by op in order.
class ValuePlacer {
public:
  ValuePlacer(func::FuncOp function, const Target &target)
      : function(function), target(target), order(function), rules(function, placement, order) {}

  FailureOr<Placement> run();

private:
  LogicalResult placeArguments();
  LogicalResult placeResults(Operation *op);
  void placeStarted(dist::StartOp start);
  void placeTransfer(mem::StartOp start);
  void placePack(dist::UnitPackOp pack);
  void placeComputed(Operation *op);
  bool placeAlias(Operation *op);
  void placeWorkspace(Operation *op);
  void placeMetrics();
  void findLifetimes();

  func::FuncOp function;
  const Target &target;
  Placement placement;
  const UseOrder order;
  OverwriteRules rules;
};
} // namespace

LogicalResult ValuePlacer::placeArguments() {
  int64_t inputs = 0, hypers = 0;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto nameAttr = function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
    std::string name = nameAttr ? nameAttr.getValue().str() : "argument " + std::to_string(index);
    auto role = function.getArgAttrOfType<nn::RoleAttr>(index, nn::kRoleAttr);
    auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    if (!state && (!role || role.getValue() == nn::Role::Metric))
      return function.emitOpError()
             << "argument " << index
             << " needs nn.state or the role input, label, hyper, seed, step or microbatch to be planned";
    int64_t id = placement.add(argument, state ? state.getValue() : StringRef(name));
    Allocation &allocation = placement.allocation(id);
    if (state) {
      if (auto declared = nn::getState(function, state)) {
        allocation.memory = mem::getHome(declared);
        allocation.category = categoryOf(declared.getRole());
      }
      if (!placement.setState(id, state.getAttr()))
        return function.emitOpError()
               << "argument " << index << " brings state " << state << " a second time";
    } else if (role.getValue() == nn::Role::Hyper) {
      allocation.space = rt::Space::Hyper;
      allocation.index = hypers++;
      allocation.category = rt::Category::Fixed;
      if (!allocation.type.getElementType().isF32() || allocation.type.getRank() != 0)
        return function.emitOpError()
               << "argument " << index << " is a hyper-parameter and must be tensor<f32>; got "
               << allocation.type;
    } else {
      allocation.space = rt::Space::Input;
      allocation.index = inputs++;
      allocation.category = rt::Category::Fixed;
    }
  }
  return success();
}

/// Places the results of views where their interface defines. Returns false for other ops.
bool ValuePlacer::placeAlias(Operation *op) {
  if (!isView(op))
    return false;
  for (OpResult result : op->getResults()) {
    ViewPlace view = cast<ViewOpInterface>(op).getViewPlace(result.getResultNumber());
    Place place = placement.placeOf(op->getOperand(view.operand));
    (place.isSliced() ? place.slices.back().inner : place.offset) += view.offset;
    if (!view.axis.empty())
      place.slice(StringAttr::get(op->getContext(), view.axis), nn::tensorBytes(result));
    placement.put(result, place);
  }
  return true;
}

void ValuePlacer::placeStarted(dist::StartOp start) {
  CollectiveOpInterface collective = start.getCollective();
  OpOperand &operand = start->getOpOperand(0);
  Value result = start.getWait().getResult();
  Place place = placement.placeOf(operand.get());
  const Allocation &source = placement.allocation(place.allocation);
  CollectiveKind kind = collective.getCollectiveKind();
  if (gathers(kind)) {
    // The operand is a slice that was updated in place: the result is its whole allocation.
    if (source.space == rt::Space::State && place.slices.size() == 1 &&
        place.slices[0].axis.getValue() == collective.getCollectiveAxis() &&
        place.slices[0].inner == 0 && rules.stateThatBecomes(result) == source.symbol)
      return placement.put(result, Place(place.allocation, place.offset));
    if (std::optional<Place> state = rules.placeOfState(start, result, mem::Memory::Device))
      return placement.put(result, *state);
  } else if (worksInPlace(kind)) {
    if (rules.mayTake(start, operand, result))
      return placement.put(result, place);
  } else if (scatters(kind)) {
    // With strategy optimizer packed gradients are live until the update anyway;
    // otherwise a result in place would keep the whole operand live.
    if (dist::reducesAtEnd(dist::getStrategy(function)) && source.space == rt::Space::Arena &&
        place.offset == 0 && !place.isSliced() && source.bytes == nn::tensorBytes(operand.get()) &&
        rules.isDeadAfter(place, source.bytes, start, &operand)) {
      place.slice(StringAttr::get(start.getContext(), collective.getCollectiveAxis()),
                  nn::tensorBytes(result));
      return placement.put(result, place);
    }
  }
  if (std::optional<Place> state = rules.placeOfUnreadState(result))
    return placement.put(result, *state);
  std::string name = describeValue(result);
  if (auto gather = dyn_cast<dist::UnitGatherOp>(collective.getOperation()))
    name = gather.getUnit().str();
  placement.add(result, name);
}

/// Places a copy of new state in the state's home if the old state has no more
/// readers.
void ValuePlacer::placeTransfer(mem::StartOp start) {
  Value result = start.getWait().getResult();
  if (std::optional<Place> home = rules.placeOfState(start, result, start.getTarget()))
    return placement.put(result, *home);
  placement.allocation(placement.add(result, describeValue(result))).memory = start.getTarget();
}

/// Places gradients where they are packed if their allocation has no other use; others are copied.
void ValuePlacer::placePack(dist::UnitPackOp pack) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(pack, pack.getUnitAttr());
  dist::GroupAttr group = unit.getGroup(pack.getGroup());
  std::optional<Place> state = rules.placeOfUnreadState(pack.getResult());
  if (state)
    placement.put(pack.getResult(), *state);
  int64_t id = state ? state->allocation : placement.add(pack.getResult(), pack.getUnit());
  Allocation &packed = placement.allocation(id);
  if (!state)
    packed.category = rt::Category::Gradients;
  packed.padding = packed.bytes;
  int64_t element = nn::elementBytes(pack.getType().getElementType());
  for (OpOperand &operand : pack->getOpOperands()) {
    auto param = cast<FlatSymbolRefAttr>(pack.getParams()[operand.getOperandNumber()]);
    packed.padding -= nn::tensorBytes(operand.get());
    int64_t offset = group.getSegment(param.getValue()).getOffset() * element;
    Place place = placement.placeOf(operand.get());
    const Allocation &source = placement.allocation(place.allocation);
    bool whole = source.space == rt::Space::Arena && place.allocation != id && place.offset == 0 &&
                 !place.isSliced() && source.bytes == nn::tensorBytes(operand.get());
    if (whole && rules.isDeadAfter(place, source.bytes, pack, &operand))
      placement.merge(place.allocation, id, offset);
    else
      placement.setPackCopies(pack, operand.getOperandNumber());
  }
}

void ValuePlacer::placeComputed(Operation *op) {
  for (OpResult result : op->getResults()) {
    OpOperand *operand = aliasedOperand(op, result.getResultNumber());
    std::optional<Place> state;
    if (!operand || !rules.mayTake(op, *operand, result)) {
      auto isOnHost = [&](Value value) {
        return placement.hasPlace(value) &&
               placement.allocationOf(value).memory == mem::Memory::Host;
      };
      // An op with an operand on the host runs there.
      mem::Memory memory =
          llvm::any_of(op->getOperands(), isOnHost) ? mem::Memory::Host : mem::Memory::Device;
      state = rules.placeOfState(op, result, memory);
      if (!state) {
        placement.allocation(placement.add(result, describeValue(result))).memory = memory;
        continue;
      }
    }
    placement.put(result, state ? *state : placement.placeOf(operand->get()));
  }
}

/// Gives an op the memory that its library call may overwrite, while it runs.
void ValuePlacer::placeWorkspace(Operation *op) {
  int64_t bytes = target.workspaceBytes(op);
  if (bytes <= 0)
    return;
  Allocation &workspace = placement.allocation(placement.addWorkspace(op, bytes));
  workspace.begin = workspace.end = order.positionOf(op);
}

LogicalResult ValuePlacer::placeResults(Operation *op) {
  if (op->getNumResults() == 0 || isa<dist::WaitOp, mem::WaitOp>(op))
    return success();
  if (auto start = dyn_cast<mem::StartOp>(op)) {
    placeTransfer(start);
    return success();
  }
  if (auto start = dyn_cast<dist::StartOp>(op)) {
    placeStarted(start);
    return success();
  }
  for (Value result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || nn::tensorBytes(type) < 0)
      return op->emitOpError() << "has a result that no buffer can hold: " << result.getType();
  }
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    Allocation &allocation = placement.allocation(placement.add(constant.getResult(), "constant"));
    allocation.space = rt::Space::Constant;
    allocation.category = rt::Category::Fixed;
    return success();
  }
  if (auto pack = dyn_cast<dist::UnitPackOp>(op)) {
    placePack(pack);
    return success();
  }
  if (!placeAlias(op)) {
    placeComputed(op);
    placeWorkspace(op);
  }
  return success();
}

/// Places f32 scalars that are metrics in the metrics' memory, so that they are not copied.
void ValuePlacer::placeMetrics() {
  int64_t index = 0;
  for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
    auto role =
        function.getResultAttrOfType<nn::RoleAttr>(operand.getOperandNumber(), nn::kRoleAttr);
    if (!role || role.getValue() != nn::Role::Metric)
      continue;
    Allocation &allocation = placement.allocationOf(operand.get());
    // A view of one element (a mean that keeps its dimensions) is copied at the end instead.
    bool scalar = allocation.type.getElementType().isF32() && allocation.type.getRank() == 0;
    if (allocation.space == rt::Space::Arena && scalar && allocation.bytes == 4) {
      allocation.space = rt::Space::Metric;
      allocation.index = index;
      allocation.category = rt::Category::Fixed;
    }
    ++index;
  }
}

void ValuePlacer::findLifetimes() {
  for (int64_t id = 0, end = placement.getAllocations().size(); id < end; ++id)
    for (Value value : placement.valuesIn(id)) {
      Allocation &allocation = placement.allocation(id);
      Operation *op = value.getDefiningOp();
      if (auto wait = dyn_cast_or_null<dist::WaitOp>(op))
        op = wait.getPending().getDefiningOp();
      else if (auto wait = dyn_cast_or_null<mem::WaitOp>(op))
        op = wait.getPending().getDefiningOp();
      int64_t begin = op ? order.positionOf(op) : 0;
      allocation.begin = std::min(allocation.begin, begin);
      allocation.end = std::max({allocation.end, begin, order.lastUseOf(value)});
    }
}

FailureOr<Placement> ValuePlacer::run() {
  if (failed(placeArguments()))
    return failure();
  for (Operation &op : function.front())
    if (failed(placeResults(&op)))
      return failure();
  placeMetrics();
  findLifetimes();
  nameCategories(function, placement);
  return std::move(placement);
}

FailureOr<Placement> shale::placeValues(func::FuncOp function, const Target &target) {
  return ValuePlacer(function, target).run();
}
