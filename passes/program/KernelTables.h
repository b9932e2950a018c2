//===- KernelTables.h - The tables of kernels -----------------------------===//
#ifndef SHALE_PASSES_PROGRAM_KERNELTABLES_H
#define SHALE_PASSES_PROGRAM_KERNELTABLES_H

#include "lib/Codegen/ConstantData.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Returns the machine code of a device other than the host; null if there is none.
Datum deviceCode(mlir::ModuleOp module, ConstantData &data, int64_t &bytes);

/// Returns the table of the kernels in that code.
Datum deviceKernels(mlir::ModuleOp module, ConstantData &data, int64_t &count);

/// Returns the table of the buffers of kernels (ShaleKernelOperands), sorted by the kernel's name.
Datum kernelOperands(mlir::ModuleOp module, ConstantData &data, int64_t &count);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_KERNELTABLES_H
