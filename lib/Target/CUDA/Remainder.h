//===- Remainder.h - fmod without a library -------------------------------===//
#ifndef SHALE_TARGET_CUDA_REMAINDER_H
#define SHALE_TARGET_CUDA_REMAINDER_H

namespace mlir {
class Operation;
} // namespace mlir

namespace shale::cuda {

/// Replaces each arith.remf of f32 in a kernel, which has the exact result of C's fmod: the
/// conversion to NVVM would call libdevice, and NVPTX would round the quotient.
void expandRemainders(mlir::Operation *kernel);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_REMAINDER_H
