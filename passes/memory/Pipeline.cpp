//===- Pipeline.cpp - What is kept and what is made again -----------------===//
#include "passes/memory/Passes.h"

using namespace mlir;

namespace shale {

void buildMemoryPoliciesPipeline(OpPassManager &manager, const MemoryOptions &options) {
  // What is not kept for the backward pass.
  AnnotateRecomputePassOptions recompute;
  recompute.policy = options.recompute;
  manager.addPass(createAnnotateRecomputePass(recompute));
}

void buildMemoryPipeline(OpPassManager &manager, const MemoryOptions &options) {
  // Slices of the forward pass are cloned where the backward pass reads them, then
  // units are gathered again for each interval of use, clones included ...
  MaterializeRecomputePassOptions materialize;
  materialize.maxGathersInFlight = options.maxGathersInFlight;
  manager.addPass(createMaterializeRecomputePass(materialize));
  // What is kept may be kept elsewhere ...
  if (options.offload != "none") {
    AnnotateOffloadPassOptions offload;
    offload.policy = options.offload;
    manager.addPass(createAnnotateOffloadPass(offload));
    MaterializeOffloadPassOptions copies;
    copies.maxGathersInFlight = options.maxGathersInFlight;
    manager.addPass(createMaterializeOffloadPass(copies));
  }
  // ... exactly as often as that takes: a merged gather would be kept, silently.
  VerifyMemoryPassOptions verify;
  verify.maxGathersInFlight = options.maxGathersInFlight;
  manager.addNestedPass<func::FuncOp>(createVerifyMemoryPass(verify));
}

} // namespace shale
