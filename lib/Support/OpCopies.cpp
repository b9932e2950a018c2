//===- OpCopies.cpp - Ops that are built in place of others ---------------===//
#include "lib/Support/OpCopies.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

void shale::CopyAttributes::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (!current || op == current)
    return;
  for (NamedAttribute attr : current->getDiscardableAttrs())
    if (!op->hasAttr(attr.getName()))
      op->setDiscardableAttr(attr.getName(), attr.getValue());
}

Operation *shale::cloneAs(OpBuilder &builder, Operation *op, ValueRange operands, TypeRange types) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  Operation *clone = builder.clone(*op, mapping);
  clone->setOperands(operands); // an op may read one value twice
  for (auto [result, type] : llvm::zip(clone->getResults(), types))
    result.setType(type);
  return clone;
}
