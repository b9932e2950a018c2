//===- Packs.h - Packed gradients -----------------------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_PACKS_H
#define SHALE_PASSES_SCHEDULE_PACKS_H

#include "dialects/dist/Dist.h"

namespace shale {

/// Returns the shape of a tensor.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);

/// Returns the packed gradient that `value` is, or that it is computed from by an op that adds
/// earlier gradients or rounds; null for other values.
dist::UnitPackOp packOf(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_PACKS_H
