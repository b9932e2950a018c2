//===- Positions.h - Values that depend on positions alone ----------------===//
//
// The mask of a long sequence has too many elements to be computed: 4 Gi for
// 65536 positions. But masks compare positions: each element depends only on one
// sum of multiples of its indices, such as the distance of query and key. So a
// mask is a table with one entry per distance.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_IMPORT_POSITIONS_H
#define SHALE_PASSES_IMPORT_POSITIONS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <optional>
#include <vector>

namespace shale::recover {

/// A tensor whose element (i0, i1, ..) is entry t - low of `table`, where t = direction[0] * i0 +
/// direction[1] * i1 + .. The factors of `direction` are coprime, the first one that is not zero is
/// positive, and that of a dimension of size 1 is zero. If all elements are equal, all factors are
/// zero, and the table has one entry.
struct PositionForm {
  llvm::SmallVector<int64_t> direction;
  int64_t low = 0;
  mlir::DenseElementsAttr table; ///< of rank 1

  bool isConstant() const {
    return llvm::all_of(direction, [](int64_t factor) { return factor == 0; });
  }
};

/// Finds the forms of values. Keeps the tables that it computed, because the layers of a model
/// compute the same mask again.
class PositionForms {
public:
  /// Returns the form of a value; none if it depends on anything but positions, if it depends on
  /// them in another way, or if the tables would be too large.
  std::optional<PositionForm> of(mlir::Value value);

private:
  /// A tensor with elements offset + factors[0] * i0 + factors[1] * i1 + .., exact in its type.
  struct Line {
    llvm::SmallVector<int64_t> factors;
    int64_t offset = 0;
  };
  /// At most one of the two is set.
  struct Known {
    std::optional<Line> line;
    std::optional<PositionForm> form;
  };

  Known find(mlir::Value value, int depth);
  Known compute(mlir::Operation *op, int depth);
  Known ofConstant(mlir::DenseElementsAttr attr);
  Known moved(mlir::Operation *op, const Known &input);
  std::optional<Line> sum(mlir::Value result, const Line &lhs, const Line &rhs, int64_t sign);
  std::optional<PositionForm> compared(mlir::Operation *op, const Line &lhs, const Line &rhs);
  std::optional<PositionForm> elementwise(mlir::Operation *op, llvm::ArrayRef<Known> operands);
  std::optional<PositionForm> toForm(const Known &known, mlir::RankedTensorType type);
  std::optional<PositionForm> toForm(const Line &line, mlir::RankedTensorType type);
  mlir::DenseElementsAttr progression(int64_t scale, int64_t offset, int64_t low, int64_t count,
                                      mlir::Type element);
  mlir::DenseElementsAttr evaluate(mlir::Operation *op,
                                   llvm::ArrayRef<mlir::DenseElementsAttr> operands);

  /// Values that the current call of `of` has seen.
  llvm::DenseMap<mlir::Value, Known> seen;
  std::map<std::vector<const void *>, mlir::DenseElementsAttr> results;
  std::map<std::vector<int64_t>, mlir::DenseElementsAttr> progressions;
  int64_t bytes = 0; ///< of the tables of `results` and `progressions`
};

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_POSITIONS_H
