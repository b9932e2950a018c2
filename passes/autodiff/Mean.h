//===- Mean.h - Losses that are a sum over a count ------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_MEAN_H
#define SHALE_PASSES_AUTODIFF_MEAN_H

#include "mlir/IR/Value.h"

namespace shale {

/// Whether loss = sum / count, or sum / max(count, 1).
bool isMean(mlir::Value loss, mlir::Value sum, mlir::Value count);

/// The power of two next above what the count can be at most (labels, or what is counted of
/// them), or that itself: divided by it, a sum is no larger than the mean. 1 where nothing is known of it.
double countScale(mlir::Value count);

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_MEAN_H
