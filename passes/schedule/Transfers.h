//===- Transfers.h - When copies between two memories run -----------------===//
#ifndef SHALE_PASSES_SCHEDULE_TRANSFERS_H
#define SHALE_PASSES_SCHEDULE_TRANSFERS_H

#include "mlir/IR/Block.h"

namespace shale {

/// Makes `mem.start` and `mem.wait` of every `mem.offload` and `mem.reload`. What
/// is wanted later (offloaded activations and gradients, state that goes home)
/// leaves as soon as it is there and is waited for when the next such copy starts,
/// so that at most one buffer waits to be free. What is wanted soon starts, with
/// `ahead`, when the copies for the reader before are waited for, for the first update
/// while ranks exchange the gradients' norm; but no unit is read whole from a copy that
/// makes more than `mostWhole` of them whole or on their way at once.
void scheduleTransfers(mlir::Block &block, bool ahead, int64_t mostWhole);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_TRANSFERS_H
