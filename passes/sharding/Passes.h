//===- Passes.h - From one program to one rank's program ------------------===//
#ifndef SHALE_PASSES_SHARDING_PASSES_H
#define SHALE_PASSES_SHARDING_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/sharding/Passes.h.inc"

struct ShardingOptions {};

/// An annotated training step in, one rank's program out.
void buildShardingPipeline(mlir::OpPassManager &manager,
                           const ShardingOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_SHARDING_PASSES_H
