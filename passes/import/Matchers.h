//===- Matchers.h - What recovery patterns look for -----------------------===//
#ifndef SHALE_PASSES_IMPORT_MATCHERS_H
#define SHALE_PASSES_IMPORT_MATCHERS_H

#include "dialects/nn/NN.h"
#include "mlir/IR/PatternMatch.h"
#include <optional>

namespace shale::recover {

inline mlir::RankedTensorType tensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// The value that all elements of a constant (perhaps broadcast) have.
std::optional<double> splatOf(mlir::Value value);
/// Whether they all have this value, up to rounding in f32.
bool isSplat(mlir::Value value, double number);
bool isClose(double a, double b);

/// The operands of a commutative op in both orders: calls `body` until true.
bool eitherOrder(mlir::Operation *op,
                 llvm::function_ref<bool(mlir::Value, mlir::Value)> body);

/// Takes off factors (mul and div by a splat); their product goes to `scale`.
mlir::Value peelScale(mlir::Value value, double &scale);
/// Takes off reshapes that only add or remove dimensions of size 1.
mlir::Value peelUnits(mlir::Value value);
/// What is repeated along the last dimension, or null.
mlir::Value peelRowBroadcast(mlir::Value value);

/// Runs patterns on the ops below `root`, without folding or merging blocks.
void applyPatterns(mlir::Operation *root, mlir::RewritePatternSet patterns);

/// Gives `to` the location and module scope of `from`.
void inherit(mlir::Operation *from, mlir::Operation *to);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_MATCHERS_H
