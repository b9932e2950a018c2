//===- Gathers.cpp - What gathers of units bring --------------------------===//
#include "lib/Analysis/Gathers.h"
#include "dialects/nn/Ops/Cluster.h"

using namespace mlir;
using namespace shale;

bool shale::convertsGathered(Operation *op) {
  auto wait = op->getNumOperands() == 1 ? op->getOperand(0).getDefiningOp<dist::WaitOp>() : nullptr;
  auto start = wait ? wait.getPending().getDefiningOp<dist::StartOp>() : dist::StartOp();
  return start && isa<dist::UnitGatherOp>(start.getCollective().getOperation()) &&
         isa<nn::ClusterOp>(op) && op->getNumResults() == 1 &&
         nn::tensorBytes(op->getResult(0)) > nn::tensorBytes(op->getOperand(0));
}

Operation *shale::quantizesFor(dist::StartOp start) {
  Operation *kernel = start.getInput().getDefiningOp();
  bool ofUnit = isa<dist::UnitGatherOp>(start.getCollective().getOperation());
  bool encoded = start.getCollective().getSentEncoding() != nullptr;
  return encoded && !ofUnit && kernel && isa<nn::ClusterOp>(kernel) ? kernel : nullptr;
}

Value shale::wholeOf(dist::StartOp start) {
  Value received = start.getWait().getResult();
  if (received.hasOneUse() && convertsGathered(*received.getUsers().begin()))
    return received.getUsers().begin()->getResult(0);
  return received;
}
