//===- KernelReport.h - What each kernel of a program takes ---------------===//
#ifndef SHALE_ANALYSIS_KERNELREPORT_H
#define SHALE_ANALYSIS_KERNELREPORT_H

#include "lib/Analysis/Report.h"
#include "lib/Target/Target.h"

namespace shale {

/// Records what the code of a kernel takes (dialects/rt/KernelCode.h). `usage` has one entry per
/// architecture.
void recordCode(rt::KernelOp kernel, const KernelInfo &info, llvm::ArrayRef<KernelUsage> usage);

/// Writes the report of `--report kernels`, as text or JSON, for a planned program whose kernels
/// are compiled and whose functions are not lowered yet: per kernel its rows, grain and scratch
/// memory per thread in bytes, or on a GPU, for each architecture, blocks, threads per block,
/// registers and spilled bytes per thread, and shared memory per block in bytes. Fails after an
/// error if a kernel is not compiled.
mlir::LogicalResult reportKernels(mlir::ModuleOp module, ReportForm form, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_KERNELREPORT_H
