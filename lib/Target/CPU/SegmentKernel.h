//===- SegmentKernel.h - CPU loops over segments --------------------------===//
#ifndef SHALE_TARGET_CPU_SEGMENTKERNEL_H
#define SHALE_TARGET_CPU_SEGMENTKERNEL_H

#include "lib/Codegen/SegmentForm.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale::cpu {

/// Emits a kernel that visits segments into `function`, which has the kernel's memory and the range
/// of parts as arguments. Fails after an error.
mlir::FailureOr<KernelInfo> generateSegments(mlir::OpBuilder &b, mlir::func::FuncOp function,
                                             mlir::Region &body, const SegmentForm &form,
                                             int64_t lanes);

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_SEGMENTKERNEL_H
