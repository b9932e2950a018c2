//===- Collective.cpp - Collectives, started and waited for ---------------===//
#include "dialects/dist/Dist.h"
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale::rt;

LogicalResult CollectiveOp::verify() {
  if (getKind() >= std::size(shale::kCollectives)) // collective_c3
    return emitOpError() << "has an unknown kind " << getKind();
  shale::CollectiveKind kind = getCollectiveKind();
  MemRefType send = getSend().getType(), recv = getRecv().getType();
  int64_t sent = send.getNumElements(), received = recv.getNumElements();
  bool agree = gathers(kind)    ? sent > 0 && received % sent == 0
               : scatters(kind) ? received > 0 && sent % received == 0
                                : sent > 0 && sent == received;
  if (!agree || send.getElementType() != recv.getElementType()) // collective_c1
    return emitOpError() << "counts or types do not agree: " << send << " and " << recv;
  if (!sendsAll(kind) || !receivesAll(kind))
    return success();
  int64_t pieces = send.getRank() == 0 ? 0 : send.getDimSize(0),
          ranks = shale::dist::getAxisSize(*this, getAxis());
  if (pieces == 0 || (ranks != 0 && pieces != ranks)) // collective_c2
    return emitOpError() << "sends " << pieces << " pieces of " << send << " over '" << getAxis()
                         << "', which has " << ranks << " ranks";
  return success();
}

shale::CollectiveKind CollectiveOp::getCollectiveKind() { return shale::CollectiveKind(getKind()); }

LogicalResult WaitOp::verify() {
  if (!getToken().hasOneUse()) // wait_c1
    return emitOpError() << "the token is waited for more than once";
  return success();
}
