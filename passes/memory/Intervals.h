//===- Intervals.h - When each unit is used -------------------------------===//
#ifndef SHALE_PASSES_MEMORY_INTERVALS_H
#define SHALE_PASSES_MEMORY_INTERVALS_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace shale {

/// First and last position, in its block, of ops that use a unit.
struct Interval {
  int64_t begin, end;
};

/// The intervals in which each gathered unit of a function of one block is used.
/// An op that reads a view of a unit uses it; ops that only look at a view
/// (reshapes that alias) are users like any other.
class UnitIntervals {
public:
  /// Unit and an operand that reads it.
  using Uses = llvm::SmallVector<std::pair<mlir::StringAttr, mlir::OpOperand *>>;

  /// Of the units that the function gathers.
  UnitIntervals(mlir::func::FuncOp function, int64_t bound);
  UnitIntervals(mlir::func::FuncOp function, const Uses &uses, int64_t bound);

  llvm::ArrayRef<Interval> of(mlir::StringAttr unit) const {
    auto it = intervals.find(unit);
    return it == intervals.end() ? llvm::ArrayRef<Interval>()
                                 : llvm::ArrayRef<Interval>(it->second);
  }
  int64_t positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  /// The operands that read the group, through views or not, in block order.
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
