//===- Aliases.cpp - Which values share bytes -----------------------------===//
#include "lib/Analysis/Aliases.h"
#include "dialects/nn/Ops/Cluster.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Matmul.h"

using namespace mlir;
using namespace shale;

nn::ConstantOp shale::splatConstant(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  return constant && isa<SplatElementsAttr>(constant.getValue()) ? constant : nn::ConstantOp();
}

OpOperand *shale::aliasedOperand(Operation *op, unsigned index) {
  if (auto cluster = dyn_cast<nn::ClusterOp>(op)) {
    auto aliases = cluster.getAliases();
    if (!aliases || (*aliases)[index] < 0)
      return nullptr;
    OpOperand &operand = op->getOpOperand((*aliases)[index]);
    return splatConstant(operand.get()) ? nullptr : &operand;
  }
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
    return index == 0 ? &update.getParameterOperand() : update.getStateOperands()[index - 1];
  if (auto matmul = dyn_cast<nn::MatmulAddOp>(op))
    return &matmul.getSumMutable();
  if (isa<ElementwiseOpInterface>(op))
    for (OpOperand &operand : op->getOpOperands())
      if (operand.get().getType() == op->getResult(index).getType() &&
          !splatConstant(operand.get()))
        return &operand;
  return nullptr;
}

Value shale::viewed(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    // getViewPlace looks up the unit, which a view of one operand does not need.
    value = op->getOperand(op->getNumOperands() == 1
                               ? 0
                               : cast<ViewOpInterface>(op)
                                     .getViewPlace(cast<OpResult>(value).getResultNumber())
                                     .operand);
  }
  return value;
}

/// Returns the reader of the value or of its views that `better` prefers, or null.
static Operation *pickReader(Value value,
                             llvm::function_ref<bool(Operation *, Operation *)> better) {
  Operation *picked = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner(), *reader = nullptr;
    if (isView(user)) // result i of a view of several operands is a view of operand i
      reader = pickReader(user->getResult(user->getNumResults() == 1 ? 0 : use.getOperandNumber()),
                          better);
    if (!reader)
      reader = user;
    if (!picked || better(reader, picked))
      picked = reader;
  }
  return picked;
}

Operation *shale::firstReader(Value value) {
  return pickReader(value, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
}

Operation *shale::lastReader(Value value) {
  return pickReader(value, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
}

Operation *shale::firstUser(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    user = op->getBlock()->findAncestorOpInBlock(*user);
    if (user && (!first || user->isBeforeInBlock(first)))
      first = user;
  }
  return first;
}
