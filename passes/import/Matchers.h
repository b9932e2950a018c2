//===- Matchers.h - Helpers of the recovery patterns ----------------------===//
#ifndef SHALE_PASSES_IMPORT_MATCHERS_H
#define SHALE_PASSES_IMPORT_MATCHERS_H

#include "dialects/nn/NN.h"
#include "mlir/IR/PatternMatch.h"
#include <optional>

namespace shale::recover {

inline mlir::RankedTensorType tensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Returns the elements of a constant; null for other values.
mlir::DenseElementsAttr constantOf(mlir::Value value);
/// Returns the value of a constant, possibly broadcast, whose elements are all equal.
std::optional<double> splatOf(mlir::Value value);
/// Whether `value` is such a constant, equal to `number` up to rounding in f32.
bool isSplat(mlir::Value value, double number);
bool isClose(double a, double b);

/// Calls `body` with the operands of a commutative op in both orders, until it
/// returns true.
bool eitherOrder(mlir::Operation *op, llvm::function_ref<bool(mlir::Value, mlir::Value)> body);

/// Strips factors (mul and div by a splat) and multiplies `scale` by them.
mlir::Value peelScale(mlir::Value value, double &scale);
/// Strips reshapes that only add or remove dimensions of size 1.
mlir::Value peelUnits(mlir::Value value);
/// Returns the input of a broadcast along the last dimension only, or null.
mlir::Value peelRowBroadcast(mlir::Value value);

/// Runs patterns on the ops below `root`, without folding or merging blocks.
void applyPatterns(mlir::Operation *root, mlir::RewritePatternSet patterns);
/// Runs patterns that recover ops from their decompositions, unless the graph computes gradients
/// and so needs the decompositions.
void applyRecovery(mlir::Operation *root, mlir::RewritePatternSet patterns);

/// Gives `to` the location and module scope of `from`.
void inherit(mlir::Operation *from, mlir::Operation *to);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_MATCHERS_H
