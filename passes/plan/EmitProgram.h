//===- EmitProgram.h - From placed values to rt ---------------------------===//
#ifndef SHALE_PASSES_PLAN_EMITPROGRAM_H
#define SHALE_PASSES_PLAN_EMITPROGRAM_H

#include "passes/plan/KernelTable.h"
#include "passes/plan/Placement.h"

namespace shale {

/// Counts over the module, so that names and sites are unique.
struct ProgramCounters {
  int64_t sites = 0;
  int64_t transfers = 0;
  int64_t constants = 0;
};

/// Emits `function` as an rt.func before it; offsets[i] is the arena offset of
/// allocation i. Fails after an error.
mlir::LogicalResult emitProgram(mlir::func::FuncOp function, const Placement &placement,
                                llvm::ArrayRef<int64_t> offsets, KernelTable &kernels, ProgramCounters &counters);

} // namespace shale

#endif // SHALE_PASSES_PLAN_EMITPROGRAM_H
