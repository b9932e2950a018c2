//===- Collective.cpp - Collectives, started and waited for ---------------===//
#include "dialects/dist/Dist.h"
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale::rt;

/// Checks that `whole` has a whole multiple of `part`'s elements, or with
/// `equal` the same number (all_gather_c1, reduce_scatter_c1, all_reduce_c1, all_to_all_c1).
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

LogicalResult AllToAllOp::verify() {
  MemRefType sent = getSend().getType();
  if (failed(verifyCounts(*this, sent, getRecv().getType(), /*equal=*/true))) // all_to_all_c1
    return failure();
  int64_t pieces = sent.getRank() == 0 ? 0 : sent.getDimSize(0),
          ranks = shale::dist::getAxisSize(*this, getAxis());
  if (pieces == 0 || (ranks != 0 && pieces != ranks)) // all_to_all_c2
    return emitOpError() << "sends " << pieces << " pieces of " << sent << " over '" << getAxis()
                         << "', which has " << ranks << " ranks";
  return success();
}

shale::CollectiveKind AllGatherOp::getCollectiveKind() { return shale::CollectiveKind::AllGather; }
shale::CollectiveKind ReduceScatterOp::getCollectiveKind() {
  return shale::CollectiveKind::ReduceScatter;
}
shale::CollectiveKind AllReduceOp::getCollectiveKind() { return shale::CollectiveKind::AllReduce; }
shale::CollectiveKind AllToAllOp::getCollectiveKind() { return shale::CollectiveKind::AllToAll; }

LogicalResult WaitOp::verify() {
  if (!getToken().hasOneUse()) // wait_c1
    return emitOpError() << "the token is waited for more than once";
  return success();
}
