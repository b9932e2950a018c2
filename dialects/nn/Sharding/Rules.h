//===- Rules.h - Helpers to write sharding rules and local forms ----------===//
#ifndef SHALE_NN_SHARDING_RULES_H
#define SHALE_NN_SHARDING_RULES_H

#include "dialects/interfaces/RuleBuilder.h"
#include "dialects/nn/NN.h"

namespace shale::nn {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
/// Number of pieces into which `axes` split a factor.
int64_t pieces(llvm::ArrayRef<SplitAxis> axes);

/// Builds the index of this rank's piece, major to minor, as a tensor<i64>.
mlir::Value pieceIndex(mlir::OpBuilder &builder, mlir::Location loc,
                       llvm::ArrayRef<SplitAxis> axes);

/// Builds the first index of this rank's piece of `size` elements, converted to
/// `type`'s element type and repeated to its shape.
mlir::Value pieceOffset(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::ArrayRef<SplitAxis> axes, int64_t size, mlir::RankedTensorType type);

/// Builds offset + other, or returns `other` if there is no offset.
mlir::Value addOffset(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value offset,
                      mlir::Value other);

/// Builds the values of all ranks of an axis, in the order of their coordinates: [ranks, ...].
mlir::Value gatherPieces(mlir::OpBuilder &builder, mlir::Location loc, SplitAxis axis,
                         mlir::Value value);

/// Swaps a dimension with the first one. Twice, it changes nothing.
mlir::Value swapWithFirst(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                          int64_t dim);

} // namespace shale::nn

#endif // SHALE_NN_SHARDING_RULES_H
