//===- KernelEquality.h - Structural equality of kernels ------------------===//
#ifndef SHALE_CODEGEN_KERNELEQUALITY_H
#define SHALE_CODEGEN_KERNELEQUALITY_H

#include "mlir/IR/Region.h"

namespace shale {

/// Whether two kernel bodies compute the same, so that they can share one kernel: equal ops on
/// equal values. Locations and discardable attributes (scopes, phases) only tell where an op came
/// from and are ignored.
bool equalKernels(mlir::Region &lhs, mlir::Region &rhs);

/// Returns a hash under which equal kernels are equal.
uint64_t hashKernel(mlir::Region &body);

} // namespace shale

#endif // SHALE_CODEGEN_KERNELEQUALITY_H
