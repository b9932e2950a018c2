//===- Passes.h - From a forward pass to a training step ------------------===//
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
  /// adamw or sgd
  std::string optimizer = "adamw";
  /// Micro-batches a step.
  int64_t accumulate = 1;
};

/// Forward pass in, training step out, verified.
void buildAutodiffPipeline(mlir::OpPassManager &manager,
                           const AutodiffOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_PASSES_H
