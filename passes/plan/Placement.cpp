//===- Placement.cpp - Which values share bytes ---------------------------===//
#include "passes/plan/Placement.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Gathers.h"
#include "passes/plan/KernelTable.h"

using namespace mlir;
using namespace shale;

std::string shale::describeValue(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return "argument";
  if (auto wait = dyn_cast<mem::WaitOp>(op))
    if (auto start = wait.getPending().getDefiningOp<mem::StartOp>())
      return "copy of " + describeValue(start.getInput());
  if (auto wait = dyn_cast<dist::WaitOp>(op))
    if (auto start = wait.getPending().getDefiningOp<dist::StartOp>())
      return start.getCollective()->getName().stripDialect().str() + " of " +
             describeValue(start.getInput());
  std::string text;
  if (auto scope = op->getAttrOfType<StringAttr>(nn::kScopeAttr);
      scope && !scope.getValue().empty())
    text = scope.getValue().str() + " ";
  return text + op->getName().stripDialect().str();
}

rt::Category shale::categoryOf(nn::Role role) {
  switch (role) {
  case nn::Role::Param:
  case nn::Role::Divided:
  case nn::Role::Buffer:
  case nn::Role::Running:
    return rt::Category::Parameters;
  case nn::Role::GradAccumulator:
  case nn::Role::Residual:
    return rt::Category::Gradients;
  default:
    return rt::Category::Optimizer;
  }
}

Place Placement::resolve(Place place) const {
  while (allocations[place.allocation].into >= 0) {
    place.offset += allocations[place.allocation].offset;
    place.allocation = allocations[place.allocation].into;
  }
  return place;
}

Place Placement::placeOf(Value value) const { return resolve(places.lookup(value)); }

int64_t Placement::add(Value value, StringRef name) {
  Allocation allocation;
  allocation.type = cast<RankedTensorType>(value.getType());
  allocation.bytes = nn::tensorBytes(value);
  allocation.name = name.str();
  allocation.loc = value.getLoc();
  allocations.push_back(std::move(allocation));
  members.push_back({value});
  Place place;
  place.allocation = allocations.size() - 1;
  places[value] = place;
  return place.allocation;
}

LogicalResult Placement::placeArguments() {
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
    int64_t id = add(argument, state ? state.getValue() : StringRef(name));
    Allocation &allocation = allocations[id];
    if (state) {
      allocation.space = rt::Space::State;
      allocation.symbol = state.getAttr();
      if (auto declared = nn::getState(function, state)) {
        allocation.memory = mem::getHome(declared);
        allocation.category = categoryOf(declared.getRole());
      }
      if (!stateAllocations.try_emplace(state.getValue(), id).second)
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

static bool overlap(const Place &a, int64_t aBytes, const Place &b, int64_t bBytes) {
  if (a.allocation != b.allocation)
    return false;
  // The offset of a slice depends on the rank, so any overlap is possible.
  if (a.isSliced() || b.isSliced())
    return true;
  return a.offset < b.offset + bBytes && b.offset < a.offset + aBytes;
}

/// Returns the op at which a use ends: operands of collectives and copies are in use until the
/// wait.
static Operation *endOfUse(Operation *user) {
  if (auto start = dyn_cast<dist::StartOp>(user))
    return start.getWait();
  if (auto start = dyn_cast<mem::StartOp>(user))
    return start.getWait();
  return user;
}

bool Placement::isDeadAfter(const Place &place, int64_t bytes, Operation *op, OpOperand *except) {
  int64_t position = positionOf(op);
  // A sent value is live until the wait. That use does not prevent operating in place, other uses
  // do.
  auto lastOtherUse = [&](Value value) {
    if (!except || value != except->get())
      return lastUseOf(value);
    int64_t last = 0;
    for (OpOperand &use : value.getUses())
      if (&use != except)
        last = std::max(last, positionOf(endOfUse(use.getOwner())));
    return last;
  };
  for (Value value : members[place.allocation])
    if (lastOtherUse(value) > position &&
        overlap(placeOf(value), nn::tensorBytes(value), place, bytes))
      return false;
  for (OpOperand &operand : op->getOpOperands())
    if (&operand != except && hasPlace(operand.get()) &&
        overlap(placeOf(operand.get()), nn::tensorBytes(operand.get()), place, bytes))
      return false;
  return true;
}

StringAttr Placement::stateThatBecomes(Value value) {
  SmallVector<Value> values{value};
  while (!values.empty()) {
    for (OpOperand &use : values.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        if (auto state = function.getResultAttrOfType<FlatSymbolRefAttr>(use.getOperandNumber(),
                                                                         nn::kStateAttr))
          return state.getAttr();
      } else if (isView(user) && user->getNumOperands() == 1 &&
                 nn::tensorBytes(user->getResult(0)) == nn::tensorBytes(user->getOperand(0))) {
        values.push_back(user->getResult(0));
      } else if (auto start = dyn_cast<mem::StartOp>(user)) {
        values.push_back(start.getWait().getResult());
      } else if (auto start = dyn_cast<dist::StartOp>(user)) {
        CollectiveKind kind = start.getCollective().getCollectiveKind();
        if (!sendsAll(kind))
          values.push_back(start.getWait().getResult());
      }
    }
  }
  return {};
}

std::optional<Place> Placement::placeOfState(Operation *op, Value value, mem::Memory memory) {
  StringAttr state = stateThatBecomes(value);
  auto it = state ? stateAllocations.find(state.getValue()) : stateAllocations.end();
  if (it == stateAllocations.end() || allocations[it->second].type != value.getType() ||
      allocations[it->second].memory != memory)
    return std::nullopt;
  Place place;
  place.allocation = it->second;
  if (!isDeadAfter(place, nn::tensorBytes(value), op, nullptr))
    return std::nullopt;
  return place;
}

int64_t Placement::unreadState(Value value) {
  StringAttr state = stateThatBecomes(value);
  auto it = state ? stateAllocations.find(state.getValue()) : stateAllocations.end();
  if (it == stateAllocations.end())
    return -1;
  const Allocation &allocation = allocations[it->second];
  bool unread = llvm::all_of(members[it->second], [](Value member) { return member.use_empty(); });
  // Results of collectives and packs are in device memory.
  return unread && allocation.memory == mem::Memory::Device &&
                 allocation.bytes == nn::tensorBytes(value)
             ? it->second
             : -1;
}

bool Placement::isSpent(StringAttr state) {
  nn::StateOp declared = nn::getState(function, FlatSymbolRefAttr::get(state));
  if (!declared || declared.getRole() != nn::Role::GradAccumulator)
    return false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto result = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
        result && result.getAttr() == state)
      return false;
  return true;
}

bool Placement::mayTake(Operation *op, OpOperand &operand, Value result) {
  if (operand.get().getType() != result.getType() || !hasPlace(operand.get()))
    return false;
  Place place = placeOf(operand.get());
  const Allocation &allocation = allocations[place.allocation];
  if (allocation.space == rt::Space::State) {
    StringAttr becomes = stateThatBecomes(result);
    if (becomes != allocation.symbol && (becomes || !isSpent(allocation.symbol)))
      return false;
  } else if (allocation.space != rt::Space::Arena || place.offset != 0 || place.isSliced() ||
             allocation.bytes != nn::tensorBytes(result)) {
    // Taking a part would keep the rest of a larger allocation alive.
    return false;
  }
  return isDeadAfter(place, nn::tensorBytes(result), op, &operand);
}

/// Places the results of views where their interface defines. Returns false for other ops.
bool Placement::placeAlias(Operation *op) {
  if (!isView(op))
    return false;
  for (OpResult result : op->getResults()) {
    ViewPlace view = cast<ViewOpInterface>(op).getViewPlace(result.getResultNumber());
    Place place = places.lookup(op->getOperand(view.operand));
    (place.isSliced() ? place.slices.back().inner : place.offset) += view.offset;
    if (!view.axis.empty())
      place.slice(StringAttr::get(op->getContext(), view.axis), nn::tensorBytes(result));
    places[result] = place;
    members[resolve(place).allocation].push_back(result);
  }
  return true;
}

void Placement::placeStarted(dist::StartOp start) {
  CollectiveOpInterface collective = start.getCollective();
  OpOperand &operand = start->getOpOperand(0);
  Value result = start.getWait().getResult();
  Place place = placeOf(operand.get());
  const Allocation &source = allocations[place.allocation];
  auto take = [&](const Place &taken) {
    places[result] = taken;
    members[taken.allocation].push_back(result);
  };
  CollectiveKind kind = collective.getCollectiveKind();
  if (gathers(kind)) {
    // The operand is a slice that was updated in place: the result is its whole allocation.
    if (source.space == rt::Space::State && place.slices.size() == 1 &&
        place.slices[0].axis.getValue() == collective.getCollectiveAxis() &&
        place.slices[0].inner == 0 && stateThatBecomes(result) == source.symbol) {
      Place whole;
      whole.allocation = place.allocation;
      whole.offset = place.offset;
      return take(whole);
    }
    if (std::optional<Place> state = placeOfState(start, result, mem::Memory::Device))
      return take(*state);
  } else if (keepsShape(kind)) {
    if (mayTake(start, operand, result))
      return take(place);
  } else if (scatters(kind)) {
    // With strategy optimizer packed gradients are live until the update anyway;
    // otherwise a result in place would keep the whole operand live.
    if (dist::reducesAtEnd(dist::getStrategy(function)) && source.space == rt::Space::Arena &&
        place.offset == 0 && !place.isSliced() && source.bytes == nn::tensorBytes(operand.get()) &&
        isDeadAfter(place, source.bytes, start, &operand)) {
      place.slice(StringAttr::get(start.getContext(), collective.getCollectiveAxis()),
                  nn::tensorBytes(result));
      return take(place);
    }
  }
  if (int64_t state = unreadState(result); state >= 0) {
    Place there;
    there.allocation = state;
    return take(there);
  }
  std::string name = describeValue(result);
  if (auto gather = dyn_cast<dist::UnitGatherOp>(collective.getOperation()))
    name = gather.getUnit().str();
  add(result, name);
}

/// Places a copy of new state in the state's home if the old state has no more
/// readers.
void Placement::placeTransfer(mem::StartOp start) {
  Value result = start.getWait().getResult();
  if (std::optional<Place> home = placeOfState(start, result, start.getTarget())) {
    places[result] = *home;
    members[home->allocation].push_back(result);
    return;
  }
  allocations[add(result, describeValue(result))].memory = start.getTarget();
}

/// Places gradients where they are packed if their allocation has no other use; others are copied.
void Placement::placePack(dist::UnitPackOp pack) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(pack, pack.getUnitAttr());
  dist::GroupAttr group = unit.getGroup(pack.getGroup());
  int64_t id = unreadState(pack.getResult());
  if (id >= 0) {
    Place there;
    there.allocation = id;
    places[pack.getResult()] = there;
    members[id].push_back(pack.getResult());
  } else {
    id = add(pack.getResult(), pack.getUnit());
    allocations[id].category = rt::Category::Gradients;
  }
  allocations[id].padding = allocations[id].bytes;
  int64_t element = nn::elementBytes(pack.getType().getElementType());
  for (OpOperand &operand : pack->getOpOperands()) {
    auto param = cast<FlatSymbolRefAttr>(pack.getParams()[operand.getOperandNumber()]);
    allocations[id].padding -= nn::tensorBytes(operand.get());
    int64_t offset = group.getSegment(param.getValue()).getOffset() * element;
    Place place = placeOf(operand.get());
    Allocation &source = allocations[place.allocation];
    bool whole = source.space == rt::Space::Arena && place.allocation != id && place.offset == 0 &&
                 !place.isSliced() && source.bytes == nn::tensorBytes(operand.get());
    if (!whole || !isDeadAfter(place, source.bytes, pack, &operand)) {
      copies.insert({pack, operand.getOperandNumber()});
      continue;
    }
    source.into = id;
    source.offset = offset;
    llvm::append_range(members[id], members[place.allocation]);
    members[place.allocation].clear();
  }
}

void Placement::placeComputed(Operation *op) {
  for (OpResult result : op->getResults()) {
    OpOperand *operand = aliasedOperand(op, result.getResultNumber());
    std::optional<Place> state;
    if (!operand || !mayTake(op, *operand, result)) {
      auto isOnHost = [&](Value value) {
        return hasPlace(value) &&
               allocations[placeOf(value).allocation].memory == mem::Memory::Host;
      };
      // An op with an operand on the host runs there.
      mem::Memory memory =
          llvm::any_of(op->getOperands(), isOnHost) ? mem::Memory::Host : mem::Memory::Device;
      state = placeOfState(op, result, memory);
      if (!state) {
        allocations[add(result, describeValue(result))].memory = memory;
        continue;
      }
    }
    Place place = state ? *state : placeOf(operand->get());
    places[result] = place;
    members[place.allocation].push_back(result);
  }
}

/// Gives an op the memory that its library call may overwrite, while it runs.
void Placement::placeWorkspace(Operation *op) {
  int64_t bytes = target.workspaceBytes(op);
  if (bytes <= 0)
    return;
  Allocation allocation;
  Type element = Float32Type::get(op->getContext());
  allocation.type = RankedTensorType::get({int64_t(llvm::divideCeil(bytes, 4))}, element);
  allocation.bytes = nn::tensorBytes(allocation.type);
  allocation.category = rt::Category::Workspace;
  allocation.name = describeValue(op->getResult(0)) + " workspace";
  allocation.loc = op->getLoc();
  allocation.begin = allocation.end = positionOf(op);
  workspaces[op] = allocations.size();
  allocations.push_back(std::move(allocation));
  members.emplace_back();
}

std::optional<Place> Placement::workspaceOf(Operation *op) const {
  auto found = workspaces.find(op);
  if (found == workspaces.end())
    return std::nullopt;
  Place place;
  place.allocation = found->second;
  return place;
}

LogicalResult Placement::placeResults(Operation *op) {
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
    Allocation &allocation = allocations[add(constant.getResult(), "constant")];
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
void Placement::placeMetrics() {
  int64_t index = 0;
  for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
    auto role =
        function.getResultAttrOfType<nn::RoleAttr>(operand.getOperandNumber(), nn::kRoleAttr);
    if (!role || role.getValue() != nn::Role::Metric)
      continue;
    Place place = placeOf(operand.get());
    Allocation &allocation = allocations[place.allocation];
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

void Placement::findLifetimes() {
  for (const auto &[value, place] : places) {
    Allocation &allocation = allocations[resolve(place).allocation];
    Operation *op = value.getDefiningOp();
    if (auto wait = dyn_cast_or_null<dist::WaitOp>(op))
      op = wait.getPending().getDefiningOp();
    else if (auto wait = dyn_cast_or_null<mem::WaitOp>(op))
      op = wait.getPending().getDefiningOp();
    int64_t begin = op ? positionOf(op) : 0;
    allocation.begin = std::min(allocation.begin, begin);
    allocation.end = std::max({allocation.end, begin, lastUseOf(value)});
  }
}

/// Returns the gradient whose words a collective sends, or null if it sends something else.
const Allocation *Placement::quantizedFrom(dist::StartOp start) const {
  Operation *kernel = quantizesFor(start);
  return kernel ? &allocations[placeOf(kernel->getOperand(0)).allocation] : nullptr;
}

/// The words of a gradient are communication, what a kernel makes of those of all ranks is a
/// gradient.
void Placement::nameQuantized(dist::StartOp start) {
  const Allocation &source = *quantizedFrom(start);
  for (Value words : {start.getInput(), start.getWait().getResult()}) {
    Allocation &allocation = allocations[placeOf(words).allocation];
    allocation.category = rt::Category::Communication;
    allocation.name = source.name;
  }
  for (Operation *reader : start.getWait()->getUsers()) {
    Allocation &made = allocations[placeOf(reader->getResult(0)).allocation];
    if (made.space != rt::Space::Arena)
      continue;
    made.category = rt::Category::Gradients;
    made.name = source.name;
    // The result has the padding of a slice, or of all slices.
    if (source.bytes > 0 && made.bytes > 0)
      made.padding = made.bytes < source.bytes ? source.padding / (source.bytes / made.bytes)
                                               : source.padding * (made.bytes / source.bytes);
  }
}

void Placement::nameCategories() {
  dist::MeshOp mesh = dist::getMesh(function);
  for (Operation &op : function.front()) {
    auto start = dyn_cast<dist::StartOp>(op);
    // Collectives over axes that split values exchange activations and their gradients.
    if (!start || (mesh && !mesh.sumsGradients(start.getCollective().getCollectiveAxis())))
      continue;
    Allocation &send = allocations[placeOf(start.getInput()).allocation];
    Allocation &recv = allocations[placeOf(start.getWait().getResult()).allocation];
    CollectiveKind kind = start.getCollective().getCollectiveKind();
    if (scatters(kind)) {
      if (&send != &recv) {
        send.category = rt::Category::Communication;
        recv.category = rt::Category::Gradients;
        recv.name = send.name;
        recv.padding = send.bytes ? send.padding / (send.bytes / recv.bytes) : 0;
      }
    } else if (gathers(kind)) {
      if (Value whole = wholeOf(start); whole != start.getWait().getResult()) {
        send.category = rt::Category::Communication;
        Allocation &floats = allocations[placeOf(whole).allocation];
        recv.category = floats.category = rt::Category::Parameters;
        send.name = floats.name = recv.name;
      } else if (quantizedFrom(start)) {
        nameQuantized(start);
      } else if (recv.space == rt::Space::Arena) {
        recv.category = rt::Category::Parameters;
      }
    } else if (quantizedFrom(start)) {
      nameQuantized(start);
    }
  }
  // A copy has the category of its source. Exceptions are shards copied for a gather
  // and state copied for its update, which are communication.
  for (auto start : function.front().getOps<mem::StartOp>()) {
    Value result = start.getWait().getResult();
    const Allocation &source = allocations[placeOf(start.getInput()).allocation];
    Allocation &copy = allocations[placeOf(result).allocation];
    if (copy.space != rt::Space::Arena)
      continue;
    bool updated = source.space == rt::Space::State && nn::isInPhase(start, nn::Phase::Update);
    // The operand of an all-reduce keeps its category.
    bool sent = llvm::any_of(result.getUsers(), [](Operation *user) {
      auto exchange = dyn_cast<dist::StartOp>(user);
      return exchange && !keepsShape(exchange.getCollective().getCollectiveKind());
    });
    copy.category = sent || updated ? rt::Category::Communication : source.category;
    copy.padding = copy.bytes == source.bytes ? source.padding : 0;
    copy.name = source.name;
  }
}

LogicalResult Placement::run() {
  int64_t position = 0;
  updateBegin = -1;
  for (Operation &op : function.front()) {
    positions[&op] = ++position;
    bool moves = isa<mem::StartOp, mem::WaitOp, dist::StartOp, dist::WaitOp, dist::UnitPackOp,
                     dist::SliceOp>(op);
    if (updateBegin < 0 && nn::isInPhase(&op, nn::Phase::Update) && !moves)
      updateBegin = position;
  }
  if (updateBegin < 0)
    updateBegin = position;
  auto noteUses = [&](Value value) {
    int64_t last = 0;
    for (Operation *user : value.getUsers())
      last = std::max(last, positionOf(endOfUse(user)));
    lastUses[value] = last;
  };
  for (Value argument : function.getArguments())
    noteUses(argument);
  for (Operation &op : function.front())
    for (Value result : op.getResults())
      noteUses(result);
  if (failed(placeArguments()))
    return failure();
  for (Operation &op : function.front())
    if (failed(placeResults(&op)))
      return failure();
  placeMetrics();
  findLifetimes();
  nameCategories();
  return success();
}
