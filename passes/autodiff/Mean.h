//===- Mean.h - Losses that are a sum over a count ------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_MEAN_H
#define SHALE_PASSES_AUTODIFF_MEAN_H

#include "mlir/IR/Value.h"

namespace shale {

/// Whether loss = sum / count, perhaps with another divisor where the count is zero or below one:
/// sum / max(count, 1), or sum / select(.., count, ..).
bool isMean(mlir::Value loss, mlir::Value sum, mlir::Value count);

/// Returns the largest possible value of the count (the number of labels, or of counted elements),
/// rounded up to a power of two: a sum divided by it is no larger than the mean. Returns 1 if
/// nothing is known about the count.
double countScale(mlir::Value count);

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_MEAN_H
