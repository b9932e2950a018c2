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

/// A dimension of a factor that axes split: the factor is a row-major product of these.
struct PieceDim {
  int64_t size;
  llvm::StringRef axis; ///< of which each rank has one index; empty: a rank has all
  int64_t stride;       ///< elements of the factor between two indexes
};
/// Returns the dimensions of a factor of `size` elements, major to minor.
llvm::SmallVector<PieceDim> pieceDims(llvm::ArrayRef<SplitAxis> axes, int64_t size);

/// Builds a value of another shape; returns the value if it has the shape.
mlir::Value reshape(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                    llvm::ArrayRef<int64_t> shape);
/// Builds what `make` builds from a value whose dimension `dim` is seen as [blocks, rest]: it gets
/// the number of the dimension to change. The blocks are then joined again.
mlir::Value inBlocks(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, int64_t dim,
                     int64_t blocks,
                     llvm::function_ref<mlir::Value(mlir::Value, int64_t dim)> make);

/// Builds the first index of this rank's pieces of `size` elements together, of one axis or more,
/// converted to `type`'s element type and repeated to its shape.
mlir::Value pieceOffset(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::ArrayRef<SplitAxis> axes, int64_t size, mlir::RankedTensorType type);

/// Builds offset + other, or returns `other` if there is no offset.
mlir::Value addOffset(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value offset,
                      mlir::Value other);

/// Builds indices relative to this rank's elements, of which there are `size`, along a factor that
/// the axes split. Those of other ranks' elements are out of range.
mlir::Value localIndices(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value indices,
                         llvm::ArrayRef<SplitAxis> axes, int64_t size);

/// Builds the values of all ranks of an axis, in the order of their coordinates: [ranks, ...].
mlir::Value gatherPieces(mlir::OpBuilder &builder, mlir::Location loc, SplitAxis axis,
                         mlir::Value value);

/// Swaps a dimension with the first one. Twice, it changes nothing.
mlir::Value swapWithFirst(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                          int64_t dim);

} // namespace shale::nn

#endif // SHALE_NN_SHARDING_RULES_H
