//===- Reshapes.h - Values before their reshapes --------------------------===//
#ifndef SHALE_PASSES_FUSION_RESHAPES_H
#define SHALE_PASSES_FUSION_RESHAPES_H

#include "dialects/nn/Ops/Data.h"

namespace shale {

/// Returns the value of which a value is a reshape, perhaps after others, or the value itself.
inline mlir::Value throughReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

} // namespace shale

#endif // SHALE_PASSES_FUSION_RESHAPES_H
