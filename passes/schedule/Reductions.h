//===- Reductions.h - When gradients are reduced --------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_REDUCTIONS_H
#define SHALE_PASSES_SCHEDULE_REDUCTIONS_H

#include "dialects/dist/Dist.h"

namespace shale {

/// The first op of the block that uses a result of `op`, or null.
mlir::Operation *firstUser(mlir::Operation *op);

/// Moves each reduction, and the packing of what it reduces, to where the last
/// operand is complete.
void hoistReductions(mlir::Block &block);

/// Forms buckets of the reductions of packed gradients, starts each where its
/// last gradient is complete, and waits for it before the next one starts, so
/// that packed gradients do not wait for the update. `atEnd`: all start when the
/// first of their results is wanted. `oneAtATime`: each is waited for before any
/// gradient that is packed next is made. Assumes that waits stand at their use.
void scheduleReductions(mlir::Block &block, int64_t bucketSize, bool atEnd, bool oneAtATime);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_REDUCTIONS_H
