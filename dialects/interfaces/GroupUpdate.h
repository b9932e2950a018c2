//===- GroupUpdate.h - Operands of an update of a flat group --------------===//
#ifndef SHALE_INTERFACES_GROUPUPDATE_H
#define SHALE_INTERFACES_GROUPUPDATE_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/ValueRange.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include "dialects/interfaces/AttrInterfaces.h.inc"

namespace shale {

/// A flat group of parameters, or this rank's slice of it, that an update is built for.
struct GroupUpdate {
  mlir::Location loc;
  /// In the order of the op's operands. Parameter and gradient are the flat group or the slice, and
  /// so are states that have the parameter's shape; other states are whole; scalars are as they
  /// were.
  mlir::ValueRange operands;
  /// The element of the group at which the slice begins; null: the whole group.
  mlir::Value offset;
  /// A parameter of the group: elements from `offset` hold the tensor of `shape` (what tensor axes
  /// leave of the parameter), and those from `stateOffset` of each state hold its state. `factors`
  /// are those of its update; null: all are 1.
  struct Segment {
    int64_t offset;
    llvm::ArrayRef<int64_t> shape;
    UpdateFactorsAttrInterface factors;
    int64_t stateOffset;
  };
  llvm::ArrayRef<Segment> segments;
  /// Whether tensor axes split parameters of the group.
  bool isSplit;
  /// Returns the sums of 1-D values over the ranks that have the other slices of the group.
  llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> sumOverSlices;
  /// Gathers a value of which each rank has what it has of the group, and returns the whole tensor
  /// of each parameter, in its shape. Parameters that are parts of one come as that one.
  llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value)> gatherParameters;
  /// Applies a function to matrices that are the same on all ranks, among which it divides them
  /// where that saves time. The function takes matrices of one shape, of two dimensions or stacked
  /// in three, and returns as many; it must give the transposed result for a transposed matrix.
  llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange,
                                                    llvm::function_ref<mlir::Value(mlir::Value)>)>
      divideMatrices;
  /// The inverse of gatherParameters: what this rank has of the group, of whole tensors of f32.
  /// Padding is 0.
  llvm::function_ref<mlir::Value(mlir::ValueRange)> takeSlice;
};

} // namespace shale

#endif // SHALE_INTERFACES_GROUPUPDATE_H
