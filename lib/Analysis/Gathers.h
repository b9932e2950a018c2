//===- Gathers.h - What gathers of units bring ----------------------------===//
#ifndef SHALE_ANALYSIS_GATHERS_H
#define SHALE_ANALYSIS_GATHERS_H

#include "dialects/dist/Dist.h"

namespace shale {

/// Returns the elements that a started gather brings: the result of its wait or, if it gathers
/// words of quantized blocks or rounded elements, that of the kernel which converts these.
mlir::Value wholeOf(dist::StartOp start);

/// Whether the op is such a kernel.
bool convertsGathered(mlir::Operation *op);

/// Returns the kernel that makes the words of quantized blocks of a gradient which the collective
/// sends, its first operand being the gradient; null if it sends anything else.
mlir::Operation *quantizesFor(dist::StartOp start);

} // namespace shale

#endif // SHALE_ANALYSIS_GATHERS_H
