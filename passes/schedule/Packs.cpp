//===- Packs.cpp - Packed gradients ---------------------------------------===//
#include "passes/schedule/Packs.h"
#include "lib/Analysis/Gathers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace shale;

ArrayRef<int64_t> shale::shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

dist::UnitPackOp shale::packOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return nullptr;
  if (auto pack = dyn_cast<dist::UnitPackOp>(op))
    return pack;
  if (!isMemoryEffectFree(op) || op->getNumResults() != 1)
    return nullptr;
  // Words of 8-bit integers have another shape than what they are made of.
  bool exchanged = llvm::any_of(value.getUsers(), [](Operation *user) {
    auto start = dyn_cast<dist::StartOp>(user);
    return start && quantizesFor(start);
  });
  for (Value operand : op->getOperands())
    if (auto pack = operand.getDefiningOp<dist::UnitPackOp>();
        pack && (exchanged || shapeOf(operand) == shapeOf(value)))
      return pack;
  return nullptr;
}
