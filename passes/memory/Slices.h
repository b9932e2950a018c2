//===- Slices.h - Forward slices computed again in the backward pass ------===//
#ifndef SHALE_PASSES_MEMORY_SLICES_H
#define SHALE_PASSES_MEMORY_SLICES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// Clones, for what the backward pass reads of each block, the ops that carry
/// `mem.recompute`, each in front of its first reader; all of a block's inputs go
/// through one `mem.barrier` in front of them, with a gradient that enters the
/// block, so that no pass can compute the clones before the backward pass is there.
/// Returns the floating-point operations of the clones.
int64_t recomputeSlices(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_SLICES_H
