//===- EmitProgram.h - Emits rt for functions with placed values ----------===//
#ifndef SHALE_PASSES_PLAN_EMITPROGRAM_H
#define SHALE_PASSES_PLAN_EMITPROGRAM_H

#include "passes/plan/KernelTable.h"
#include "passes/plan/Placement.h"

namespace shale {

/// Counters of the whole module that make names and sites unique.
struct ProgramCounters {
  int64_t sites = 0;
  int64_t transfers = 0;
  int64_t constants = 0;
};

/// Emits an rt.func for `function` in front of it. offsets[i] is the arena offset of
/// allocation i, in bytes. Emits an error on failure.
mlir::LogicalResult emitProgram(mlir::func::FuncOp function, const Placement &placement,
                                llvm::ArrayRef<int64_t> offsets, KernelTable &kernels,
                                ProgramCounters &counters);

} // namespace shale

#endif // SHALE_PASSES_PLAN_EMITPROGRAM_H
