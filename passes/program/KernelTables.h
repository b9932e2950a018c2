//===- KernelTables.h - The tables of kernels -----------------------------===//
#ifndef SHALE_PASSES_PROGRAM_KERNELTABLES_H
#define SHALE_PASSES_PROGRAM_KERNELTABLES_H

#include "lib/Codegen/ProgramData.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// The machine code of a device other than the host, and the kernels in it. Empty if there is none.
struct DeviceCode {
  abi::Address<const void> bytes;
  int64_t size = 0;
  abi::Rows<const ShaleDeviceKernel *> kernels;
};
DeviceCode deviceCode(mlir::ModuleOp module, abi::ProgramData &data);

/// Returns the table of the buffers of kernels, sorted by the kernel's name.
abi::Rows<ShaleKernelOperands> kernelOperands(mlir::ModuleOp module, abi::ProgramData &data);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_KERNELTABLES_H
