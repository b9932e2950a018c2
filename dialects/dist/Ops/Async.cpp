//===- Async.cpp - Collectives split into start and wait ------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

LogicalResult StartOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || body.getArgument(0).getType() != getInput().getType() ||
      body.getOperations().size() != 2) // start_c1
    return emitOpError("must hold one collective of its operand and a yield");
  auto collective = dyn_cast<CollectiveOpInterface>(body.front());
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!collective || !yield || collective->getNumOperands() != 1 ||
      collective->getOperand(0) != body.getArgument(0) ||
      yield.getResult() != collective->getResult(0)) // start_c1
    return emitOpError("must hold one collective of its operand and a yield");
  if (getPending().getType().getType() != yield.getResult().getType()) // start_c2
    return emitOpError("result must be pending of ") << yield.getResult().getType();
  if (!getPending().hasOneUse() || !isa<WaitOp>(*getPending().getUsers().begin()) ||
      (*getPending().getUsers().begin())->getBlock() != (*this)->getBlock()) // start_c3
    return emitOpError("must be waited for exactly once, in its block");
  return success();
}

CollectiveOpInterface StartOp::getCollective() {
  return cast<CollectiveOpInterface>(getBody().front().front());
}

bool StartOp::isPlacedAtUse() {
  // A gathered unit takes memory, so it is started late. Reductions start as soon as their operand
  // is computed.
  return isa<UnitGatherOp>(getCollective().getOperation());
}

WaitOp StartOp::getWait() { return cast<WaitOp>(*getPending().getUsers().begin()); }

LogicalResult WaitOp::verify() {
  if (!getPending().getDefiningOp<StartOp>()) // wait_c1
    return emitOpError("must wait for a dist.start");
  return success();
}

std::pair<StartOp, WaitOp> dist::splitCollective(OpBuilder &builder,
                                                 CollectiveOpInterface collective) {
  Operation *op = collective;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Value input = op->getOperand(0), result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  auto start =
      StartOp::create(builder, op->getLoc(), PendingType::get(builder.getContext(), type), input);
  auto wait = WaitOp::create(builder, op->getLoc(), start.getPending());
  start->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  wait->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  result.replaceAllUsesWith(wait.getResult());
  Block *body = builder.createBlock(&start.getBody());
  BlockArgument argument = body->addArgument(input.getType(), input.getLoc());
  op->moveBefore(body, body->end());
  op->setOperand(0, argument);
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, op->getLoc(), result);
  return {start, wait};
}
