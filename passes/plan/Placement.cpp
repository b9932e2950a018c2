//===- Placement.cpp - Places of values in allocations --------------------===//
#include "passes/plan/Placement.h"

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

Place Placement::resolve(Place place) const {
  while (allocations[place.allocation].into >= 0) {
    place.offset += allocations[place.allocation].offset;
    place.allocation = allocations[place.allocation].into;
  }
  return place;
}

int64_t Placement::allocationOfState(StringAttr state) const {
  auto found = state ? states.find(state) : states.end();
  return found == states.end() ? -1 : found->second;
}

std::optional<Place> Placement::workspaceOf(Operation *op) const {
  auto found = workspaces.find(op);
  if (found == workspaces.end())
    return std::nullopt;
  return Place(found->second);
}

int64_t Placement::add(Value value, StringRef name) {
  Allocation allocation;
  allocation.type = cast<RankedTensorType>(value.getType());
  allocation.bytes = nn::tensorBytes(value);
  allocation.name = name.str();
  allocation.loc = value.getLoc();
  int64_t id = allocations.size();
  allocations.push_back(std::move(allocation));
  members.emplace_back();
  put(value, Place(id));
  return id;
}

int64_t Placement::addWorkspace(Operation *op, int64_t bytes) {
  Allocation allocation;
  Type element = Float32Type::get(op->getContext());
  allocation.type = RankedTensorType::get({int64_t(llvm::divideCeil(bytes, 4))}, element);
  allocation.bytes = nn::tensorBytes(allocation.type);
  allocation.category = rt::Category::Workspace;
  allocation.name = describeValue(op->getResult(0)) + " workspace";
  allocation.loc = op->getLoc();
  int64_t id = workspaces[op] = allocations.size();
  allocations.push_back(std::move(allocation));
  members.emplace_back();
  return id;
}

bool Placement::setState(int64_t id, StringAttr state) {
  allocations[id].space = rt::Space::State;
  allocations[id].symbol = state;
  return states.try_emplace(state, id).second;
}

void Placement::put(Value value, Place place) {
  members[place.allocation].push_back(value);
  places[value] = std::move(place);
}

void Placement::merge(int64_t id, int64_t into, int64_t offset) {
  allocations[id].into = into;
  allocations[id].offset = offset;
  llvm::append_range(members[into], members[id]);
  members[id].clear();
}
