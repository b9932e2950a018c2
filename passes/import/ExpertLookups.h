//===- ExpertLookups.h - Rows by index ------------------------------------===//
#ifndef SHALE_PASSES_IMPORT_EXPERTLOOKUPS_H
#define SHALE_PASSES_IMPORT_EXPERTLOOKUPS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include <optional>

namespace shale::recover {

/// A lookup of slices along the first dimension of a table by a list of indices, or the sum of
/// slices by such indices.
struct Lookup {
  mlir::Value table, indices; ///< the table is what is added if slices are summed
  bool sums = false;

  static std::optional<Lookup> of(mlir::Operation *op);
};

/// Returns a bound of integers that are not negative: that of indices of lines, moved; none for
/// others.
std::optional<int64_t> boundOf(mlir::Value value);
/// Strips what does not change a list of indices: casts, dimensions of size 1, and the wrap of
/// negative indices where there are none.
mlir::Value peelIndices(mlir::Value value);
/// Whether integers are known not to be negative.
bool isNotNegative(mlir::Value value);
/// Returns the elements of a constant, or of a short nn.iota; null for other values.
mlir::DenseElementsAttr elementsOf(mlir::Value value);
/// Returns what an elementwise op of indices gives if constants and signs of its operands decide
/// it, as the wrap of negative indices does, without a list of the elements; null otherwise.
mlir::Value simplifyIndices(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);
/// Returns what a lookup of rows that repeat in order gives; null for other ops.
mlir::Value repeatRows(mlir::OpBuilder &b, mlir::Operation *op);

/// Replaces matmuls of one row with a matrix that is looked up by an expert. Returns whether there
/// were any.
bool multiplyLookedUp(mlir::Block &block);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_EXPERTLOOKUPS_H
