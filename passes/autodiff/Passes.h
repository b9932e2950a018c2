//===- Passes.h - The autodiff stage --------------------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_PASSES_H
#define SHALE_PASSES_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"

struct AutodiffOptions {
  /// A name of dialects/nn/Optimizers.h.
  std::string optimizer = "adamw";
  /// Micro-batches per step.
  int64_t accumulate = 1;
};

/// Builds the training step from the forward pass and verifies it.
void buildAutodiffPipeline(mlir::OpPassManager &manager, const AutodiffOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_PASSES_H
