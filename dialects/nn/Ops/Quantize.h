//===- Quantize.h - 8-bit floats and their matmuls ------------------------===//
#ifndef SHALE_NN_OPS_QUANTIZE_H
#define SHALE_NN_OPS_QUANTIZE_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Quantize.h.inc"

namespace shale::nn {
/// The least magnitude that a tensor's scale is computed for: torchao's EPS.
inline constexpr double kLeastMagnitude = 1e-12;

/// Returns the largest finite number of an 8-bit float type: 448 or 57344.
double largestFloat8(mlir::Type element);

/// Adds the ops of Quantize.td to the dialect.
void registerQuantizeOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_QUANTIZE_H
