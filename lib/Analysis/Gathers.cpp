//===- Gathers.cpp - What gathers of units bring --------------------------===//
#include "lib/Analysis/Gathers.h"
#include "dialects/nn/Ops/Cluster.h"

using namespace mlir;
using namespace shale;

static bool gathersWords(dist::StartOp start) {
  auto gather = dyn_cast<dist::UnitGatherOp>(start.getCollective().getOperation());
  return gather && gather.gathersWords();
}

bool shale::readsGatheredWords(Operation *op) {
  auto wait = op->getNumOperands() == 1 ? op->getOperand(0).getDefiningOp<dist::WaitOp>() : nullptr;
  return wait && gathersWords(wait.getPending().getDefiningOp<dist::StartOp>());
}

Operation *shale::quantizesFor(dist::StartOp start) {
  Operation *kernel = start.getInput().getDefiningOp();
  bool words = cast<RankedTensorType>(start.getInput().getType()).getElementType().isInteger(32);
  bool ofUnit = isa<dist::UnitGatherOp>(start.getCollective().getOperation());
  return words && !ofUnit && kernel && isa<nn::ClusterOp>(kernel) &&
                 cast<RankedTensorType>(kernel->getOperand(0).getType()).getElementType().isF32()
             ? kernel
             : nullptr;
}

Value shale::wholeOf(dist::StartOp start) {
  Value received = start.getWait().getResult();
  if (gathersWords(start) && received.hasOneUse())
    return received.getUsers().begin()->getResult(0);
  return received;
}
