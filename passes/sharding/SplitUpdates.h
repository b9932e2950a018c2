//===- SplitUpdates.h - Updates of parameters that tensor axes split ------===//
//
// The state of most optimizers has the shape of the parameter, and is split as the parameter is.
// State in blocks of elements that follow one another, as that of 8-bit AdamW, is split between
// blocks; that of rows and columns, as Adafactor's, is whole on every rank.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_SPLITUPDATES_H
#define SHALE_PASSES_SHARDING_SPLITUPDATES_H

#include "passes/sharding/TensorLayout.h"
#include <optional>
#include <string>

namespace shale {
namespace nn {
class StateOp;
} // namespace nn

inline namespace sharding {

/// Returns the layout of optimizer state of type `state` whose parameter has layout `layout`
/// (nn::getStateSharding).
TensorLayout stateLayout(mlir::Type state, nn::StateOp param, const TensorLayout &layout);

/// Returns why the optimizer of a parameter cannot update what tensor axes leave of it, as a
/// clause; nothing if it can.
std::optional<std::string> whyNotSplit(nn::StateOp param, const TensorLayout &layout,
                                       dist::MeshOp mesh);

/// Returns why the optimizer of a parameter cannot update its indices [begin, end) along a
/// dimension as a parameter of their own, as a clause; nothing if it can.
std::optional<std::string> whyNotDivided(nn::StateOp param, int64_t dim, int64_t begin,
                                         int64_t end);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_SPLITUPDATES_H
