//===- ExpertPlaces.h - Where tensors have tokens and experts -------------===//
#ifndef SHALE_PASSES_IMPORT_EXPERTPLACES_H
#define SHALE_PASSES_IMPORT_EXPERTPLACES_H

#include "dialects/nn/Ops/Sort.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace shale::recover {

/// Which experts tokens choose: `indices` [.., k] of nn.top_k, a line per token. The experts of a
/// token are different.
struct Choice {
  mlir::Value indices;
  int64_t tokens, experts, chosen;

  /// Returns the choice that a sort of lines makes; none if it chooses all or there is one token.
  static std::optional<Choice> of(nn::TopKOp sort);
};

/// The strides of tokens and of experts in a tensor: the number of elements, in row-major order,
/// from one token or expert to the next; 0 if the tensor has none. A reshape does not change them,
/// and one dimension may count both.
struct Place {
  int64_t token = 0, expert = 0;

  bool operator==(const Place &other) const {
    return token == other.token && expert == other.expert;
  }
};

/// Returns the shape of a tensor with rows (token, choice) instead of tokens, and without experts:
/// the elements of other dimensions keep their order. None if a dimension is only partly in the
/// place.
std::optional<llvm::SmallVector<int64_t>> chosenShape(const Choice &choice,
                                                      llvm::ArrayRef<int64_t> shape, Place place);

/// Returns the places of the operands of an op that computes each expert and token of its result
/// from the same ones of its operands, as its sharding rule says; none for others.
std::optional<llvm::SmallVector<Place>> placesOfOperands(const Choice &choice,
                                                         mlir::OpResult result, Place place);

/// Whether a dimension counts tokens, perhaps among other things.
bool countsTokens(const Choice &choice, llvm::ArrayRef<int64_t> shape, int64_t dim, Place place);
/// Whether it counts experts.
bool countsExperts(const Choice &choice, llvm::ArrayRef<int64_t> shape, int64_t dim, Place place);
/// Returns how far apart neighbors in a dimension are.
int64_t strideOf(llvm::ArrayRef<int64_t> shape, int64_t dim);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_EXPERTPLACES_H
