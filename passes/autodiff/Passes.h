//===- Passes.h - The autodiff stage --------------------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_PASSES_H
#define SHALE_PASSES_AUTODIFF_PASSES_H

#include "lib/Support/PolicyOption.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"

/// Builds the training step from the forward pass and verifies it.
void buildAutodiffPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_PASSES_H
