//===- Passes.h - The precision stage -------------------------------------===//
#ifndef SHALE_PASSES_PRECISION_PASSES_H
#define SHALE_PASSES_PRECISION_PASSES_H

#include "lib/Support/Policies.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/precision/Passes.h.inc"

/// Converts a training step in f32 to the types of its policy, `nn.precision`,
/// and verifies them. `rounding` is that of new parameters that are kept in bf16.
void buildPrecisionPipeline(mlir::OpPassManager &manager,
                            RoundingKind rounding = RoundingKind::Nearest);

} // namespace shale

#endif // SHALE_PASSES_PRECISION_PASSES_H
