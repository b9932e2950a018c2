//===- UseOrder.cpp - Where the uses of values end ------------------------===//
#include "passes/plan/UseOrder.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"

using namespace mlir;
using namespace shale;

/// Returns the op at which a use ends.
static Operation *endOfUse(Operation *user) {
  if (auto start = dyn_cast<dist::StartOp>(user))
    return start.getWait();
  if (auto start = dyn_cast<mem::StartOp>(user))
    return start.getWait();
  return user;
}

UseOrder::UseOrder(func::FuncOp function) {
  int64_t position = 0;
  for (Operation &op : function.front())
    positions[&op] = ++position;
  for (Value argument : function.getArguments())
    lastUses[argument] = endOfUses(argument, nullptr);
  for (Operation &op : function.front())
    for (Value result : op.getResults())
      lastUses[result] = endOfUses(result, nullptr);
}

int64_t UseOrder::lastUseOf(Value value, const OpOperand *except) const {
  return except && except->get() == value ? endOfUses(value, except) : lastUses.lookup(value);
}

int64_t UseOrder::endOfUses(Value value, const OpOperand *except) const {
  int64_t last = 0;
  for (OpOperand &use : value.getUses())
    if (&use != except)
      last = std::max(last, positionOf(endOfUse(use.getOwner())));
  return last;
}
