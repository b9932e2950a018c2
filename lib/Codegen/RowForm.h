//===- RowForm.h - Rows and columns of a kernel ---------------------------===//
//
// A generated kernel computes rows, which are independent, of columns. Each level of
// row reductions is one stage over a row, the outputs are the last. A stage visits the
// columns as boxes, nests of loops.
//
// The form begins as coarse as possible. If an op needs finer dimensions (a
// transposition, a concatenation), emission fails with a refinement; the target
// refines the form and starts again. How rows, boxes and columns are mapped to
// threads, vectors and blocks is the target's part.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_CODEGEN_ROWFORM_H
#define SHALE_CODEGEN_ROWFORM_H

#include "dialects/nn/Ops/Reduce.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Region.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {
namespace nn {
class TransposeOp;
}

/// The origin of a dimension, by which a form is refined. Dimensions of origin Other cannot be
/// refined.
enum class DimOrigin { Flat, Row, Column, Other };

/// A change of the form that is required to emit the kernel.
struct Refinement {
  enum Kind {
    Split,  ///< splits a dimension into (size / at, at)
    Break,  ///< splits a dimension into the ranges [0, at) and [at, size)
    Scalar, ///< computes one element at a time
    Unsupported
  };
  Kind kind;
  DimOrigin origin = DimOrigin::Other;
  unsigned position = 0; ///< index among the dimensions of the same origin
  int64_t at = 0;
};

/// A part of a row: column = start + sum of stride * dimension.
struct Box {
  int64_t start;
  struct Loop {
    int64_t size, stride;
  };
  llvm::SmallVector<Loop> loops; ///< outermost first
};

/// The sizes of a transposition of matrices: from [outer, rows, columns] to [outer, columns, rows].
struct MatrixTranspose {
  int64_t outer = 1, rows = 1, columns = 1;
  bool operator==(const MatrixTranspose &other) const {
    return outer == other.outer && rows == other.rows && columns == other.columns;
  }
};

/// Returns the sizes if the op exchanges two groups of adjacent dimensions, the second of which are
/// the last, and both have more than one element.
std::optional<MatrixTranspose> matchTranspose(nn::TransposeOp op);

/// The form of one kernel.
struct RowForm {
  /// Whether every output has `columns` elements and there are no rows. Any reduction is then a
  /// loop inside an element.
  bool flat = false;
  /// Whether elements are computed one at a time, because neighbours need different code.
  bool scalar = false;
  int64_t rows = 1, columns = 1;
  /// Sizes of the dimensions that make up the rows, outermost first; their product is `rows`.
  llvm::SmallVector<int64_t> rowSizes;
  /// Boxes of each level of row reductions; those of the outputs last. Empty for a flat form.
  llvm::SmallVector<llvm::SmallVector<Box>> stages;
  /// The level of each reduction over rows. Other reductions are loops inside an element.
  llvm::DenseMap<mlir::Operation *, unsigned> level;
  unsigned levels = 0;
  /// Sums over rows of each column: outputs that have one row for each of `sumParts` parts of the
  /// rows. The number of levels that must be complete before the sum belongs to each.
  llvm::SmallVector<std::pair<nn::ReduceOp, unsigned>> sums;
  int64_t sumParts = 0; ///< 0 if there are none
  /// Whether a reduction is a loop inside an element.
  bool loops = false;
  /// Whether some outputs have one element per row, which fixes the rows.
  bool rowOutputs = false;

  /// Number of independent parts: rows, or elements of a flat form.
  int64_t parts() const { return flat ? columns : rows; }
};

/// Chooses rows and columns for a kernel, a region of nn ops that ends in a yield, from its
/// reductions over trailing dimensions, the widest first. With `columnSums` outputs may also be
/// sums of columns over parts of the rows. Fails after an error if the outputs have no common rows.
mlir::FailureOr<RowForm> chooseRowForm(mlir::Region &body, bool columnSums = false);

/// Applies a refinement that was asked for in `box` of `stage`. Returns false if the form cannot be
/// refined: the caller must then stop, or emission would not end.
bool refine(RowForm &form, const Refinement &asked, unsigned stage, unsigned box);

} // namespace shale

#endif // SHALE_CODEGEN_ROWFORM_H
