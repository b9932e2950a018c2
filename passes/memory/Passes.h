//===- Passes.h - The memory stage ----------------------------------------===//
#ifndef SHALE_PASSES_MEMORY_PASSES_H
#define SHALE_PASSES_MEMORY_PASSES_H

#include "lib/Support/PolicyOption.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/memory/Passes.h.inc"

/// Checks a policy of `--shale-annotate-recompute` against the modules of a model.
/// Emits an error and fails if the policy is invalid.
mlir::LogicalResult checkRecompute(mlir::ModuleOp module, const RecomputePolicy &policy);

/// Appends the passes on modules that annotate ops according to the policies. They fail
/// only if an option is wrong.
void buildMemoryPoliciesPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

/// Appends the passes on modules that carry out the annotations, and the verifier.
void buildMemoryPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_PASSES_H
