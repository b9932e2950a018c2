//===- Passes.h - The annotate stage --------------------------------------===//
#ifndef SHALE_PASSES_ANNOTATE_PASSES_H
#define SHALE_PASSES_ANNOTATE_PASSES_H

#include "lib/Support/PolicyOption.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/annotate/Passes.h.inc"

/// Sets the user's choices on the module as attributes.
void buildAnnotatePipeline(mlir::OpPassManager &manager, const CompileOptions &options);

} // namespace shale

#endif // SHALE_PASSES_ANNOTATE_PASSES_H
