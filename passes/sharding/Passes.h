//===- Passes.h - The sharding stage --------------------------------------===//
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

/// Converts an annotated training step to the program of one rank.
void buildShardingPipeline(mlir::OpPassManager &manager, const ShardingOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_SHARDING_PASSES_H
