//===- Passes.h - The import stage ----------------------------------------===//
#ifndef SHALE_PASSES_IMPORT_PASSES_H
#define SHALE_PASSES_IMPORT_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"

struct ImportPipelineOptions {
  /// Whether to recover norms, attention, rotary positions and activations (off: `--no-recover`).
  bool recover = true;
};

/// Cleans up an imported module and recovers its ops.
void buildImportPipeline(mlir::OpPassManager &manager, const ImportPipelineOptions &options = {});

/// Registers the pipeline as `shale-import`.
void registerImportPipeline();

} // namespace shale

#endif // SHALE_PASSES_IMPORT_PASSES_H
