//===- TensorSearch.h - What tensor axes split in a part of the step ------===//
#ifndef SHALE_PASSES_SHARDING_TENSORSEARCH_H
#define SHALE_PASSES_SHARDING_TENSORSEARCH_H

#include "dialects/nn/NN.h"
#include "passes/sharding/OpenValues.h"
#include "passes/sharding/Propagation.h"
#include "passes/sharding/SplitClasses.h"
#include "llvm/ADT/SmallBitVector.h"
#include <optional>
#include <vector>

namespace shale {
inline namespace sharding {

/// A parameter in a search: an argument of the function.
struct TensorCandidate {
  mlir::BlockArgument argument;
  /// The dimensions that its matmuls keep; they sum over others.
  llvm::SmallBitVector kept;
  /// The dimensions whose parts its optimizer cannot update, and why.
  llvm::SmallBitVector barred;
  std::string whyBarred;
  /// The dimension that the user asks for, -1: whole; nothing: it is searched.
  std::optional<int64_t> fixed;

  /// Whether so many ranks can split a dimension.
  bool divides(size_t dim, int64_t ranks) const {
    auto type = mlir::cast<mlir::RankedTensorType>(argument.getType());
    return type.getDimSize(dim) % ranks == 0 && !barred.test(dim);
  }
  bool isVector() const {
    return mlir::cast<mlir::RankedTensorType>(argument.getType()).getRank() < 2;
  }
  /// What a split of a dimension is called; -1: whole.
  dist::TensorSplit splitOf(int64_t dim) const {
    return dim < 0          ? dist::TensorSplit::Whole
           : kept.test(dim) ? dist::TensorSplit::Column
                            : dist::TensorSplit::Row;
  }
};

/// What a choice of splits costs a step, over tensor axes. Costs are compared in this order: a
/// split that makes ranks gather activations is of no use, and memory is what tensor axes are for.
struct TensorCost {
  int64_t gathered = 0; ///< bytes of values that are gathered, or whose split changes
  int64_t whole = 0;    ///< elements of parameters that every rank holds
  int64_t reduced = 0;  ///< bytes of values that are summed over ranks
  int64_t sums = 0;     ///< number of such values

  bool operator<(const TensorCost &other) const {
    return std::tie(gathered, whole, reduced, sums) <
           std::tie(other.gathered, other.whole, other.reduced, other.sums);
  }
};

/// A way to split a parameter, and what it costs while all others stay as they are, but for those
/// that are split with it.
struct TensorOption {
  int64_t dim; ///< -1: whole
  TensorCost cost;
  SplitEnd end;
};

/// The dimension of each candidate that tensor axes split (-1: none), and what that costs.
struct TensorChoice {
  llvm::SmallVector<int64_t> dims;
  TensorCost cost;
  int64_t tried = 0; ///< number of choices whose costs were computed
  /// The ways to split each candidate; none if it is not searched, or if no dimension can be split.
  std::vector<std::vector<TensorOption>> options;
};

/// Finds the cheapest splits of the parameters of a part of the step. `ops` are its forward and
/// backward ops in program order; values of other ops are whole, and other ops read whole values
/// but for those in `open`.
/// Each class of dimensions (SplitClasses.h) is split or not; no parameter is split twice. Vectors
/// follow: they are split where all of their uses are. All choices are tried if there are at most
/// 256, else those that change one or two neighbours at a time, until none is cheaper. The first
/// search splits no norms. The second one adds to its result: it splits parameters that stayed
/// whole, and the norms between them.
/// `exhaustive`: each parameter is split by itself, and all choices are tried.
TensorChoice searchTensorSplits(dist::MeshOp mesh, const AxisList &axes,
                                llvm::ArrayRef<mlir::Operation *> ops,
                                llvm::ArrayRef<TensorCandidate> candidates, const OpenValues &open,
                                bool exhaustive = false);

/// Returns what the splits that all candidates have as `fixed` cost.
TensorCost costOfTensorSplits(dist::MeshOp mesh, const AxisList &axes,
                              llvm::ArrayRef<mlir::Operation *> ops,
                              llvm::ArrayRef<TensorCandidate> candidates);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_TENSORSEARCH_H
