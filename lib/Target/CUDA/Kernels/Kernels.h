//===- Kernels.h - Dedicated GPU kernels of single ops --------------------===//
#ifndef SHALE_TARGET_CUDA_KERNELS_KERNELS_H
#define SHALE_TARGET_CUDA_KERNELS_KERNELS_H

#include "lib/Codegen/OwnKernelForm.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace shale::cuda {

/// Blocks of a launch, and threads per block.
struct Launch {
  int64_t blocks = 1, threads = 32;
};

} // namespace shale::cuda

#include "lib/Target/CUDA/Kernels/OwnKernel.h.inc"

namespace shale::cuda {

// Each function attaches the models of one file to its ops.
void attachGroupedMatmulKernels(mlir::MLIRContext &context);
void attachSortKernels(mlir::MLIRContext &context);
void attachSortedSumKernels(mlir::MLIRContext &context);
void attachTableKernels(mlir::MLIRContext &context);
void attachUpdateKernels(mlir::MLIRContext &context);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_KERNELS_KERNELS_H
