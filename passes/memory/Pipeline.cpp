//===- Pipeline.cpp - The memory stage ------------------------------------===//
#include "lib/Options/PassOptions.h"
#include "passes/memory/Passes.h"

using namespace mlir;

namespace shale {

void buildMemoryPoliciesPipeline(OpPassManager &manager, const CompileOptions &options) {
  // Logits and their gradients exist for one chunk of rows at a time.
  manager.addPass(createChunkLossesPass(optionsOf<ChunkLossesPassOptions>(options)));
  // Mark results that are not kept for the backward pass.
  manager.addPass(createAnnotateRecomputePass(optionsOf<AnnotateRecomputePassOptions>(options)));
}

void buildMemoryPipeline(OpPassManager &manager, const CompileOptions &options) {
  // Slices of the forward pass are cloned where the backward pass reads them. Then
  // units are gathered again for each interval of use, including uses by clones.
  manager.addPass(
      createMaterializeRecomputePass(optionsOf<MaterializeRecomputePassOptions>(options)));
  // Kept values may be kept in host memory.
  if (options.offload.any()) {
    manager.addPass(createAnnotateOffloadPass(optionsOf<AnnotateOffloadPassOptions>(options)));
    manager.addPass(
        createMaterializeOffloadPass(optionsOf<MaterializeOffloadPassOptions>(options)));
  }
  // Units must be gathered exactly once per interval: a merged gather would silently be kept.
  manager.addNestedPass<func::FuncOp>(
      createVerifyMemoryPass(optionsOf<VerifyMemoryPassOptions>(options)));
}

} // namespace shale
