//===- FastMath.h - Approximations by the hardware --------------------------===//
#ifndef SHALE_TARGET_CUDA_FASTMATH_H
#define SHALE_TARGET_CUDA_FASTMATH_H

namespace mlir {
class Operation;
} // namespace mlir

namespace shale::cuda {

/// Allows approximations (`afn`) of each exp, tanh and division of f32 in a kernel.
void allowApproximations(mlir::Operation *kernel);

/// Replaces the ops that allow approximations by instructions of NVIDIA GPUs, with the errors of
/// the PTX ISA, version 8.7, section 9.7.3:
/// - exp x: `ex2.approx` of x log2(e), a relative error of at most (2 + |x|) 2^-23. Subnormal
/// results
///   are kept.
/// - tanh: `tanh.approx` (from sm_75 on), a relative error of at most 2^-11.
/// - division: `div.full`, at most 2 units in the last place.
void useApproximations(mlir::Operation *kernels);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_FASTMATH_H
