//===- Passes.h - The precision stage -------------------------------------===//
#ifndef SHALE_PASSES_PRECISION_PASSES_H
#define SHALE_PASSES_PRECISION_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/precision/Passes.h.inc"

/// Converts a training step in f32 to the types of its policy, `nn.precision`, and verifies them.
void buildPrecisionPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

} // namespace shale

#endif // SHALE_PASSES_PRECISION_PASSES_H
