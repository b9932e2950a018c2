//===- Passes.h - What is kept and what is made again ---------------------===//
#ifndef SHALE_PASSES_MEMORY_PASSES_H
#define SHALE_PASSES_MEMORY_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/memory/Passes.h.inc"

struct MemoryOptions {
  /// Units whole, or on their way, at once.
  int64_t maxGathersInFlight = 2;
  /// Policy of `--shale-annotate-recompute`.
  std::string recompute = "none";
  /// Policy of `--shale-annotate-offload`.
  std::string offload = "none";
};

/// Checks a policy of `--shale-annotate-recompute` against the modules of a model; fails
/// after an error.
mlir::LogicalResult checkRecompute(mlir::ModuleOp module, llvm::StringRef policy);

/// The policies, as annotations. What fails here is a flag. For modules.
void buildMemoryPoliciesPipeline(mlir::OpPassManager &manager,
                                 const MemoryOptions &options = {});

/// What is annotated made explicit, verified. For modules.
void buildMemoryPipeline(mlir::OpPassManager &manager,
                         const MemoryOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_MEMORY_PASSES_H
