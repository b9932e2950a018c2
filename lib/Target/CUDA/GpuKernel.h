//===- GpuKernel.h - Kernels of rows, columns and elements ----------------===//
#ifndef SHALE_TARGET_CUDA_GPUKERNEL_H
#define SHALE_TARGET_CUDA_GPUKERNEL_H

#include "lib/Target/CUDA/GpuSchedule.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace shale::cuda {

/// Emits a kernel of nn ops into `function`, whose arguments are the memory of the inputs and
/// outputs of `body`. Returns false if no code was found for an op of it.
bool emitKernel(mlir::OpBuilder &builder, mlir::gpu::GPUFuncOp function, mlir::Region &body,
                const RowForm &form, const GpuSchedule &schedule);

/// The same for a schedule with a strip of columns.
bool emitColumns(mlir::OpBuilder &builder, mlir::gpu::GPUFuncOp function, mlir::Region &body,
                 const RowForm &form, const GpuSchedule &schedule);

/// The same for a schedule that transposes.
bool emitTransposes(mlir::OpBuilder &builder, mlir::gpu::GPUFuncOp function, mlir::Region &body,
                    const RowForm &form, const GpuSchedule &schedule);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_GPUKERNEL_H
