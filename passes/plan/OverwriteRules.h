//===- OverwriteRules.h - Which old bytes a value may take ----------------===//
#ifndef SHALE_PASSES_PLAN_OVERWRITERULES_H
#define SHALE_PASSES_PLAN_OVERWRITERULES_H

#include "passes/plan/Placement.h"
#include "passes/plan/UseOrder.h"

namespace shale {

/// Decides which bytes of a placement a new value may overwrite. The old values in them have no
/// more readers, and the bytes of a state receive only what the state becomes.
class OverwriteRules {
public:
  OverwriteRules(mlir::func::FuncOp function, const Placement &placement, const UseOrder &order)
      : function(function), placement(placement), order(order) {}

  /// Whether `op` may write `result` over the bytes of `operand`.
  bool mayTake(mlir::Operation *op, mlir::OpOperand &operand, mlir::Value result);
  /// Whether no value in `bytes` bytes from a place is read once `op` has begun, except by the
  /// operand `except` of `op`.
  bool isDeadAfter(const Place &place, int64_t bytes, mlir::Operation *op,
                   const mlir::OpOperand *except) const;
  /// Returns the place of the state that `value` becomes, if the old value has no readers
  /// once `op` has begun.
  std::optional<Place> placeOfState(mlir::Operation *op, mlir::Value value, mem::Memory memory);
  /// Returns the place of the state that `value` becomes if the old value has no readers at all, so
  /// that `value` can be computed in its place.
  std::optional<Place> placeOfUnreadState(mlir::Value value);
  /// Returns the state whose value is `value` when the function returns, or null.
  mlir::StringAttr stateThatBecomes(mlir::Value value);

private:
  /// Whether `state` is a gradient accumulator that the function does not return, so that it may be
  /// overwritten.
  bool isSpent(mlir::StringAttr state);

  mlir::func::FuncOp function;
  const Placement &placement;
  const UseOrder &order;
};

} // namespace shale

#endif // SHALE_PASSES_PLAN_OVERWRITERULES_H
