//===- Exponential.h - exp without conversions ------------------------------===//
#ifndef SHALE_TARGET_CUDA_EXPONENTIAL_H
#define SHALE_TARGET_CUDA_EXPONENTIAL_H

namespace mlir {
class Operation;
} // namespace mlir

namespace shale::cuda {

/// Replaces each math.exp of f32 in a kernel, but those that allow approximations, by 13
/// instructions of the units that add and multiply. MLIR's polynomial has 19, of which two, floor
/// and the conversion to an integer, run at an eighth of their rate. Errors are below 2.25 units in
/// the last place. Results below 2^-126 are 0, and those from 2^127.5 on are infinite.
void expandExponentials(mlir::Operation *kernel);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_EXPONENTIAL_H
