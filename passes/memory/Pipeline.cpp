//===- Pipeline.cpp - The memory stage ------------------------------------===//
#include "passes/memory/Passes.h"

using namespace mlir;

namespace shale {

void buildMemoryPoliciesPipeline(OpPassManager &manager, const MemoryOptions &options) {
  // Logits and their gradients exist for one chunk of rows at a time.
  ChunkLossesPassOptions chunks;
  chunks.rows = options.lossChunk;
  manager.addPass(createChunkLossesPass(chunks));
  // Mark results that are not kept for the backward pass.
  AnnotateRecomputePassOptions recompute;
  recompute.policy = options.recompute;
  manager.addPass(createAnnotateRecomputePass(recompute));
}

void buildMemoryPipeline(OpPassManager &manager, const MemoryOptions &options) {
  // Slices of the forward pass are cloned where the backward pass reads them. Then
  // units are gathered again for each interval of use, including uses by clones.
  MaterializeRecomputePassOptions materialize;
  materialize.maxGathersInFlight = options.maxGathersInFlight;
  manager.addPass(createMaterializeRecomputePass(materialize));
  // Kept values may be kept in host memory.
  if (options.offload.any()) {
    AnnotateOffloadPassOptions offload;
    offload.policy = options.offload;
    manager.addPass(createAnnotateOffloadPass(offload));
    MaterializeOffloadPassOptions copies;
    copies.maxGathersInFlight = options.maxGathersInFlight;
    manager.addPass(createMaterializeOffloadPass(copies));
  }
  // Units must be gathered exactly once per interval: a merged gather would silently be kept.
  VerifyMemoryPassOptions verify;
  verify.maxGathersInFlight = options.maxGathersInFlight;
  manager.addNestedPass<func::FuncOp>(createVerifyMemoryPass(verify));
}

} // namespace shale
