//===- SearchMemo.h - Results of tensor searches by their problems --------===//
#ifndef SHALE_PASSES_SHARDING_SEARCHMEMO_H
#define SHALE_PASSES_SHARDING_SEARCHMEMO_H

#include "mlir/IR/DialectInterface.h"
#include "passes/sharding/TensorSearch.h"
#include <map>
#include <mutex>

namespace shale {
inline namespace sharding {

/// Keeps the results of searchTensorSplits(), keyed by everything that the search reads, so that
/// plans of one model under many flags search each problem once. An interface of the dist dialect,
/// so it lives as long as the context, whose attributes and types the keys name.
class SearchMemo : public mlir::DialectInterface::Base<SearchMemo> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SearchMemo)
  explicit SearchMemo(mlir::Dialect *dialect) : Base(dialect) {}

  /// Returns searchTensorSplits() of the arguments.
  TensorChoice search(dist::MeshOp mesh, const AxisList &axes,
                      llvm::ArrayRef<mlir::Operation *> ops,
                      llvm::ArrayRef<TensorCandidate> candidates, const OpenValues &open,
                      bool exhaustive) const;

  /// Returns how many problems were searched.
  size_t searches() const {
    std::lock_guard<std::mutex> lock(mutex);
    return searched;
  }

private:
  using Key = std::vector<uintptr_t>;
  mutable std::mutex mutex;
  mutable size_t searched = 0;
  mutable std::map<Key, TensorChoice> known;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_SEARCHMEMO_H
