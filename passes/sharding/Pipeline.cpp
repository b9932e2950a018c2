//===- Pipeline.cpp - From one program to one rank's program --------------===//
#include "passes/sharding/Passes.h"

namespace shale {

// Nothing may canonicalize or merge between these: folding drops annotations.
void buildShardingPipeline(mlir::OpPassManager &manager,
                           const ShardingOptions &) {
  // Every value gets a layout...
  manager.addPass(createPropagatePass());
  // ... which each op can make.
  manager.addPass(createVerifyShardedPass());
  // Types become local, collectives appear where layouts differ.
  manager.addPass(createPartitionPass());
  // What a flag asks for and ranks cannot exchange is told here, where the op is still the model's.
  manager.addPass(createVerifyCollectivesPass());
}

} // namespace shale
