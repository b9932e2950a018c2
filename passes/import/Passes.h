//===- Passes.h - The import stage ----------------------------------------===//
#ifndef SHALE_PASSES_IMPORT_PASSES_H
#define SHALE_PASSES_IMPORT_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/import/Passes.h.inc"

/// Cleans up an imported module and recovers its ops.
void buildImportPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

} // namespace shale

#endif // SHALE_PASSES_IMPORT_PASSES_H
