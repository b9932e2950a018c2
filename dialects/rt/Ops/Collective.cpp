//===- Collective.cpp - Collectives, started and waited for ---------------===//
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale::rt;

/// Checks that `whole` has a whole multiple of `part`'s elements, or with
/// `equal` the same number (all_gather_c1, reduce_scatter_c1, all_reduce_c1).
static LogicalResult verifyCounts(Operation *op, MemRefType whole, MemRefType part, bool equal) {
  int64_t w = whole.getNumElements(), p = part.getNumElements();
  if (whole.getElementType() != part.getElementType() || p == 0 || (equal ? w != p : w % p != 0))
    return op->emitOpError() << "counts or types do not agree: " << whole << " and " << part;
  return success();
}

LogicalResult AllGatherOp::verify() {
  return verifyCounts(*this, getRecv().getType(), getSend().getType(), /*equal=*/false);
}
LogicalResult ReduceScatterOp::verify() {
  return verifyCounts(*this, getSend().getType(), getRecv().getType(), /*equal=*/false);
}
LogicalResult AllReduceOp::verify() {
  return verifyCounts(*this, getSend().getType(), getRecv().getType(), /*equal=*/true);
}

shale::CollectiveKind AllGatherOp::getCollectiveKind() { return shale::CollectiveKind::AllGather; }
shale::CollectiveKind ReduceScatterOp::getCollectiveKind() {
  return shale::CollectiveKind::ReduceScatter;
}
shale::CollectiveKind AllReduceOp::getCollectiveKind() { return shale::CollectiveKind::AllReduce; }

LogicalResult WaitOp::verify() {
  if (!getToken().hasOneUse()) // wait_c1
    return emitOpError() << "the token is waited for more than once";
  return success();
}
