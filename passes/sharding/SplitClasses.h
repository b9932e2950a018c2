//===- SplitClasses.h - Dimensions of parameters that are split together --===//
#ifndef SHALE_PASSES_SHARDING_SPLITCLASSES_H
#define SHALE_PASSES_SHARDING_SPLITCLASSES_H

#include "mlir/IR/Operation.h"
#include "passes/sharding/OpenValues.h"
#include "llvm/ADT/SmallVector.h"
#include <string>
#include <utility>
#include <vector>

namespace shale {
inline namespace sharding {

struct TensorCandidate;

/// Where a class of dimensions ends: values are gathered there if it is split.
struct SplitEnd {
  /// "nn.softmax needs all of dimension 2"; empty if the class ends nowhere.
  std::string text;
  /// The node of the file from which the first such op comes; empty if that is not known.
  std::string node;
  /// Whether another number of ranks divides what the op reads or makes.
  bool isUndivided = false;
};

/// Dimensions of parameters that are one factor of the forward pass, such as the heads of an
/// attention or the hidden size of an MLP: split over tensor axes, they need nothing but sums over
/// ranks, except where the class ends.
struct SplitClass {
  /// Candidates, by number, each at most once, and the dimension that is split.
  llvm::SmallVector<std::pair<size_t, int64_t>, 4> dims;
  /// The first op that computes with the factor.
  mlir::Operation *first = nullptr;
  SplitEnd end;

  /// Returns the dimension of a candidate in the class; -1 if it has none.
  int64_t dimOf(size_t candidate) const;
};

/// Returns the classes of the parameters that are searched, in program order. `ops`: those of a
/// region, in program order; its backward ops have the classes of the forward ones. `open`: values
/// that may leave the region in any layout. `ranks`: the number of ranks that split a dimension,
/// `first`: those of the first axis. With `throughNorms`, classes go on through ops that exchange
/// sums if the factor is split (isExchanged).
std::vector<SplitClass> findSplitClasses(llvm::ArrayRef<mlir::Operation *> ops,
                                         llvm::ArrayRef<TensorCandidate> candidates,
                                         const OpenValues &open, int64_t ranks, int64_t first,
                                         bool throughNorms = false);

/// Returns the numbers of ranks, up to 64, that divide a size: "2, 3, 6"; empty if there are none.
std::string divisorsOf(int64_t size);
/// Returns "divide over 2, 3, 6 ranks", or "no number of ranks divides".
std::string divisionOf(int64_t size);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_SPLITCLASSES_H
