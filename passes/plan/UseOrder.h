//===- UseOrder.h - Where the uses of values end --------------------------===//
#ifndef SHALE_PASSES_PLAN_USEORDER_H
#define SHALE_PASSES_PLAN_USEORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// The positions of the ops of a function with one block, from 1, and those at which uses of its
/// values end. An operand of a collective or copy is in use until the wait.
class UseOrder {
public:
  explicit UseOrder(mlir::func::FuncOp function);

  int64_t positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// Returns the position at which the last use of a value ends, or 0 if it has none. The use
  /// `except` does not count.
  int64_t lastUseOf(mlir::Value value, const mlir::OpOperand *except = nullptr) const;

private:
  int64_t endOfUses(mlir::Value value, const mlir::OpOperand *except) const;

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Value, int64_t> lastUses;
};

} // namespace shale

#endif // SHALE_PASSES_PLAN_USEORDER_H
