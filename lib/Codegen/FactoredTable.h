//===- FactoredTable.h - Segments of factored moments as constants --------===//
#ifndef SHALE_LIB_CODEGEN_FACTOREDTABLE_H
#define SHALE_LIB_CODEGEN_FACTOREDTABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace shale {

/// The segments of a factored moment, which kernels of every target read as constants. Without
/// segments, one row of zeros: constants are not empty.
struct FactoredTable {
  /// Per segment, as i64: offset and elements in the group, place in the moment, and the number of
  /// matrices, rows and columns (0 for a vector).
  static constexpr int64_t kFields = 6;
  mlir::DenseElementsAttr segments;
  /// The weight decay of each segment, as f32.
  mlir::DenseElementsAttr decays;

  /// `ranges` holds an nn::FactoredRangeAttr per segment.
  explicit FactoredTable(mlir::ArrayAttr ranges);
};

/// Fails with an error if kernels cannot load the operands of an op on factored moments: `large`
/// must be f32 or 16-bit floats, `small` f32.
mlir::LogicalResult checkFactoredTypes(mlir::Operation *op, mlir::ValueRange large,
                                       mlir::ValueRange small);

} // namespace shale

#endif // SHALE_LIB_CODEGEN_FACTOREDTABLE_H
