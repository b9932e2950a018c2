//===- Rows.h - What ops do with the rows of a list -----------------------===//
#ifndef SHALE_ANALYSIS_ROWS_H
#define SHALE_ANALYSIS_ROWS_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {

/// How an op uses rows. A dimension of a tensor counts items, such as tokens; a row is the part of
/// the tensor that belongs to one item.
enum class RowUse {
  None, ///< something else
  Each, ///< a row of a result is made of the same row of operands: other orders give other orders
  Sum   ///< results are sums over all rows: any order gives the same, but for rounding
};

/// The dimensions along which operands and results of an op have the same rows.
struct RowRelation {
  RowUse use = RowUse::None;
  /// The factor of the op's sharding rule.
  int64_t factor = -1;
  /// For each operand and result its dimension of the rows; -1: it is the same for all rows.
  llvm::SmallVector<int64_t> operands, results;
};

/// Returns what an op does with the rows along dimension `dim` of an operand.
RowRelation relateRows(mlir::OpOperand &operand, int64_t dim);
/// Returns how an op makes the rows along dimension `dim` of a result: Each, or None.
RowRelation relateRows(mlir::OpResult result, int64_t dim);

/// Whether a value is known to be the same for all rows along a dimension: equal elements of a
/// constant, numbers along another dimension, or what a broadcast repeats.
bool isSameForRows(mlir::Value value, int64_t dim);

/// Clones an op that has one result with operands and a result of other numbers of rows.
mlir::Operation *cloneWithRows(mlir::OpBuilder &builder, mlir::Operation *op,
                               mlir::ValueRange operands, mlir::Type type);

} // namespace shale

#endif // SHALE_ANALYSIS_ROWS_H
