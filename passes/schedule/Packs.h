//===- Packs.h - Packed gradients -----------------------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_PACKS_H
#define SHALE_PASSES_SCHEDULE_PACKS_H

#include "dialects/dist/Dist.h"

namespace shale {

/// The shape of a tensor.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);

/// The packed gradient that is reduced, as it is or added to earlier ones and rounded; null for other values.
dist::UnitPackOp packOf(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_PACKS_H
