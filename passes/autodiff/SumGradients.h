//===- SumGradients.h - The sum of two gradients --------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_SUMGRADIENTS_H
#define SHALE_PASSES_AUTODIFF_SUMGRADIENTS_H

#include "mlir/IR/Builders.h"

namespace shale {

/// Builds the sum of two gradients of one value. Gradients of neighbouring slices, which are padded
/// with zeros, are concatenated instead: their sum takes no additions and no zeros.
mlir::Value buildGradientSum(mlir::OpBuilder &builder, mlir::Value first, mlir::Value second);

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_SUMGRADIENTS_H
