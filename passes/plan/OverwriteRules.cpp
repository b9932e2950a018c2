//===- OverwriteRules.cpp - Which old bytes a value may take --------------===//
#include "passes/plan/OverwriteRules.h"
#include "dialects/nn/Ops/State.h"

using namespace mlir;
using namespace shale;

static bool overlap(const Place &a, int64_t aBytes, const Place &b, int64_t bBytes) {
  if (a.allocation != b.allocation)
    return false;
  // The offset of a slice depends on the rank, so any overlap is possible.
  if (a.isSliced() || b.isSliced())
    return true;
  return a.offset < b.offset + bBytes && b.offset < a.offset + aBytes;
}

bool OverwriteRules::isDeadAfter(const Place &place, int64_t bytes, Operation *op,
                                 const OpOperand *except) const {
  auto overlaps = [&](Value value) {
    return overlap(placement.placeOf(value), nn::tensorBytes(value), place, bytes);
  };
  // A sent value is live until the wait. That use does not prevent operating in place, other uses
  // do.
  int64_t position = order.positionOf(op);
  for (Value value : placement.valuesIn(place.allocation))
    if (order.lastUseOf(value, except) > position && overlaps(value))
      return false;
  for (OpOperand &operand : op->getOpOperands())
    if (&operand != except && placement.hasPlace(operand.get()) && overlaps(operand.get()))
      return false;
  return true;
}

StringAttr OverwriteRules::stateThatBecomes(Value value) {
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

std::optional<Place> OverwriteRules::placeOfState(Operation *op, Value value, mem::Memory memory) {
  int64_t id = placement.allocationOfState(stateThatBecomes(value));
  if (id < 0 || placement.allocation(id).type != value.getType() ||
      placement.allocation(id).memory != memory ||
      !isDeadAfter(Place(id), nn::tensorBytes(value), op, nullptr))
    return std::nullopt;
  return Place(id);
}

std::optional<Place> OverwriteRules::placeOfUnreadState(Value value) {
  int64_t id = placement.allocationOfState(stateThatBecomes(value));
  // Results of collectives and packs are in device memory.
  if (id < 0 || placement.allocation(id).memory != mem::Memory::Device ||
      placement.allocation(id).bytes != nn::tensorBytes(value) ||
      !llvm::all_of(placement.valuesIn(id), [](Value member) { return member.use_empty(); }))
    return std::nullopt;
  return Place(id);
}

bool OverwriteRules::isSpent(StringAttr state) {
  nn::StateOp declared = nn::getState(function, FlatSymbolRefAttr::get(state));
  if (!declared || declared.getRole() != nn::Role::GradAccumulator)
    return false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto result = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
        result && result.getAttr() == state)
      return false;
  return true;
}

bool OverwriteRules::mayTake(Operation *op, OpOperand &operand, Value result) {
  if (operand.get().getType() != result.getType() || !placement.hasPlace(operand.get()))
    return false;
  Place place = placement.placeOf(operand.get());
  const Allocation &allocation = placement.allocation(place.allocation);
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
