//===- KernelReports.h - Writes --report kernels --------------------------===//
#ifndef SHALE_DRIVER_KERNELREPORTS_H
#define SHALE_DRIVER_KERNELREPORTS_H

#include "lib/Options/Options.h"
#include "mlir/Pass/PassManager.h"

namespace shale {

/// Makes `manager` write the reports of kernels that `options` request after the pass that compiles
/// the kernels; the next pass removes what they are made of. If a report cannot be written, reports
/// the error and sets `code`, which must be 0 before, to the exit code.
void writeKernelReports(mlir::PassManager &manager, const CompileOptions &options, int &code);

} // namespace shale

#endif // SHALE_DRIVER_KERNELREPORTS_H
