//===- LiveBytes.h - Ops delayed to lower the sum of live bytes -----------===//
#ifndef SHALE_PASSES_SCHEDULE_LIVEBYTES_H
#define SHALE_PASSES_SCHEDULE_LIVEBYTES_H

#include "mlir/IR/Block.h"

namespace shale {

/// Delays ops that allocate memory past ops that free memory if the largest sum of live bytes
/// between the two places becomes smaller: a gradient of a weight is computed when the gathered
/// weight is no longer needed, not before. The sum of live bytes does not change elsewhere, so
/// the peak never rises. Ops stay in their phase; collectives and copies stay where they are.
/// Assumes that views, gathers and reloads are at their use.
void delayMakers(mlir::Block &block);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_LIVEBYTES_H
