//===- Movement.h - Chains of reshapes and transposes ---------------------===//
#ifndef SHALE_PASSES_IMPORT_MOVEMENT_H
#define SHALE_PASSES_IMPORT_MOVEMENT_H

#include "mlir/IR/PatternMatch.h"
#include <optional>

namespace shale::recover {

/// Marks a transpose that moves the batch away from the front, while shale-sink-movement runs.
inline constexpr const char *kTurnsBatch = "nn.turns_batch";

/// The effect of a chain of reshapes and transposes on `source`: its dimensions are split into
/// factors, which are reordered and merged. Factors have sizes above 1.
struct Movement {
  mlir::Value source;
  /// Sizes of the factors, and the factors of each dimension of the source, major to minor.
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<llvm::SmallVector<int64_t>> from;
  /// The factors of each dimension of the result, major to minor.
  llvm::SmallVector<llvm::SmallVector<int64_t>> to;
  /// Number of ops in the chain, and whether one of them moves the batch away from the front
  /// (kTurnsBatch).
  int64_t length = 0;
  bool turnsBatch = false;

  /// Returns the movement that changes nothing; each dimension is one factor.
  static Movement identity(mlir::Value source);
  /// Returns the longest chain that ends in `value` and can be represented.
  static Movement of(mlir::Value value);

  /// Returns the shape of the result.
  llvm::SmallVector<int64_t> shape() const;
  /// Return all factors in the order of the source, and in that of the result.
  llvm::SmallVector<int64_t> before() const, after() const;
  /// Whether the batch is the first factor of the source but not of the result.
  bool movesBatch() const;
  /// Merges factors that are adjacent within one dimension of both source and result.
  void simplify();
  /// Builds the source as a tensor with one dimension per factor.
  mlir::Value split(mlir::PatternRewriter &rewriter, mlir::Operation *like) const;
  /// Builds the result by at most a reshape, a transpose and a reshape, with the location and scope
  /// of `like`.
  mlir::Value build(mlir::PatternRewriter &rewriter, mlir::Operation *like) const;
  /// Returns the number of ops that `build` creates.
  int64_t cost() const;
  /// Returns the same movement of a value with one dimension per factor, in the order of the
  /// source.
  Movement ofSplit(mlir::Value value) const;
};

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_MOVEMENT_H
