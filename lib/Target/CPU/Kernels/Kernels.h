//===- Kernels.h - Dedicated kernels of single ops ------------------------===//
#ifndef SHALE_TARGET_CPU_KERNELS_KERNELS_H
#define SHALE_TARGET_CPU_KERNELS_KERNELS_H

#include "lib/Codegen/OwnKernelForm.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "lib/Target/CPU/Kernels/OwnKernel.h.inc"

namespace shale::cpu {

// Each function attaches the models of one file to its ops.
void attachAttentionKernels(mlir::MLIRContext &context);
void attachDataKernels(mlir::MLIRContext &context);
void attachEmbeddingKernels(mlir::MLIRContext &context);
void attachOptimizerKernels(mlir::MLIRContext &context);
void attachSortKernels(mlir::MLIRContext &context);

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_KERNELS_KERNELS_H
