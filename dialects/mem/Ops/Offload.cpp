//===- Offload.cpp - Copies between two memories --------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"

using namespace mlir;
using namespace shale;
using namespace shale::mem;

LogicalResult StartOp::verify() {
  auto pending = dyn_cast<dist::PendingType>(getPending().getType());
  if (!pending || pending.getType() != getInput().getType()) // start_c1
    return emitOpError("result must be pending of ") << getInput().getType();
  if (!getPending().hasOneUse() || !isa<WaitOp>(*getPending().getUsers().begin()) ||
      (*getPending().getUsers().begin())->getBlock() != (*this)->getBlock()) // start_c2
    return emitOpError("must be waited for exactly once, in its block");
  return success();
}

WaitOp StartOp::getWait() { return cast<WaitOp>(*getPending().getUsers().begin()); }

LogicalResult WaitOp::verify() {
  auto start = getPending().getDefiningOp<StartOp>();
  if (!start || start.getInput().getType() != getResult().getType()) // wait_c1
    return emitOpError("must wait for a mem.start of its result's type");
  return success();
}
