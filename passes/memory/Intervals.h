//===- Intervals.h - When each unit is used -------------------------------===//
#ifndef SHALE_PASSES_MEMORY_INTERVALS_H
#define SHALE_PASSES_MEMORY_INTERVALS_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace shale {

/// Positions, in their block, of the first and the last op that use a unit.
struct Interval {
  int64_t begin, end;
};

/// The intervals in which each gathered unit of a function with one block is used.
/// An op that reads a view of a unit uses the unit. Ops that only alias a view
/// (reshapes) count as uses, too.
class UnitIntervals {
public:
  /// Pairs of a unit and an operand that reads it.
  using Uses = llvm::SmallVector<std::pair<mlir::StringAttr, mlir::OpOperand *>>;

  /// Finds the intervals of the units that the function gathers. Merges intervals
  /// while at most `bound` units are whole at once.
  UnitIntervals(mlir::func::FuncOp function, int64_t bound);
  UnitIntervals(mlir::func::FuncOp function, const Uses &uses, int64_t bound);

  llvm::ArrayRef<Interval> of(mlir::StringAttr unit) const {
    auto it = intervals.find(unit);
    return it == intervals.end() ? llvm::ArrayRef<Interval>()
                                 : llvm::ArrayRef<Interval>(it->second);
  }
  int64_t positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// Returns the operands that read the group, directly or through views, in block order.
  static llvm::SmallVector<mlir::OpOperand *> usesOf(dist::UnitGatherOp gather);

private:
  void cut(llvm::ArrayRef<std::pair<int64_t, mlir::StringAttr>> uses);
  void merge(int64_t bound);
  int64_t foreignIntervals(mlir::StringAttr unit, int64_t after, int64_t before);
  int64_t mostWhole(mlir::StringAttr unit, int64_t after, int64_t before);

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::MapVector<mlir::StringAttr, llvm::SmallVector<Interval>> intervals;
};

} // namespace shale

#endif // SHALE_PASSES_MEMORY_INTERVALS_H
