//===- Movement.h - Chains of reshapes and transposes ---------------------===//
#ifndef SHALE_PASSES_IMPORT_MOVEMENT_H
#define SHALE_PASSES_IMPORT_MOVEMENT_H

#include "mlir/IR/PatternMatch.h"
#include <optional>

namespace shale::recover {

/// Marks a transpose that takes the batch from the front, while shale-sink-movement runs.
inline constexpr const char *kTurnsBatch = "nn.turns_batch";

/// What a chain of reshapes and transposes does to `source`: its dimensions are split into factors, these are put in
/// another order and merged. Factors have sizes above 1.
struct Movement {
  mlir::Value source;
  /// Sizes of the factors, and for each dimension of the source its factors, major to minor.
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<llvm::SmallVector<int64_t>> from;
  /// For each dimension of the result its factors, major to minor.
  llvm::SmallVector<llvm::SmallVector<int64_t>> to;
  /// Ops in the chain, and whether one of them takes the batch from the front (kTurnsBatch).
  int64_t length = 0;
  bool turnsBatch = false;

  /// Nothing moves; each dimension is one factor.
  static Movement identity(mlir::Value source);
  /// The longest chain that ends in `value` and can be written so.
  static Movement of(mlir::Value value);

  /// The shape of the result.
  llvm::SmallVector<int64_t> shape() const;
  /// All factors in the source's order, and in the result's.
  llvm::SmallVector<int64_t> before() const, after() const;
  /// Whether the batch was the first factor, and is it no more.
  bool movesBatch() const;
  /// Merges factors that follow each other in one dimension of both.
  void simplify();
  /// The source as a tensor of one dimension for each factor.
  mlir::Value split(mlir::PatternRewriter &rewriter, mlir::Operation *like) const;
  /// The result, by at most a reshape, a transpose and a reshape, which get place and scope of `like`.
  mlir::Value build(mlir::PatternRewriter &rewriter, mlir::Operation *like) const;
  /// How many ops `build` makes.
  int64_t cost() const;
  /// The same movement of a value that has one dimension for each factor, in the source's order.
  Movement ofSplit(mlir::Value value) const;
};

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_MOVEMENT_H
