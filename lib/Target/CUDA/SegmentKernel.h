//===- SegmentKernel.h - GPU kernels that visit segments ------------------===//
#ifndef SHALE_TARGET_CUDA_SEGMENTKERNEL_H
#define SHALE_TARGET_CUDA_SEGMENTKERNEL_H

#include "lib/Codegen/SegmentForm.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"

namespace shale::cuda {

/// Returns the launch of a kernel that visits segments.
Launch launchOf(const SegmentForm &form);

/// Emits the code of one thread of a kernel that visits segments into `function`, which has the
/// kernel's memory as arguments. Fails after an error.
mlir::LogicalResult emitSegments(mlir::OpBuilder &b, mlir::gpu::GPUFuncOp function,
                                 mlir::Region &body, const SegmentForm &form);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_SEGMENTKERNEL_H
