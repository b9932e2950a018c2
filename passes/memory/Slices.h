//===- Slices.h - Forward slices recomputed in the backward pass ----------===//
#ifndef SHALE_PASSES_MEMORY_SLICES_H
#define SHALE_PASSES_MEMORY_SLICES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// Whether a value is the result of a forward op with `mem.recompute`, or a view of one, and no
/// gathered unit: units are gathered again by themselves.
bool isRecomputed(mlir::Value value);

/// Clones the ops of each block with `mem.recompute` that the backward pass needs,
/// each in front of its first reader. All inputs of a block's clones go through one
/// `mem.barrier` in front of them. The barrier also takes a gradient that enters the
/// block, so that no pass can move the clones before the block's backward pass.
/// Returns the number of floating-point operations of the clones.
int64_t recomputeSlices(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_SLICES_H
