//===- Pipeline.cpp - What is kept and what is made again -----------------===//
#include "passes/memory/Passes.h"

using namespace mlir;

namespace shale {

void buildMemoryPipeline(OpPassManager &manager, const MemoryOptions &options) {
  // Units are gathered again for each interval of use ...
  MaterializeRecomputePassOptions materialize;
  materialize.maxGathersInFlight = options.maxGathersInFlight;
  manager.addNestedPass<func::FuncOp>(
      createMaterializeRecomputePass(materialize));
  // ... exactly as often as that takes: a merged gather would be kept, silently.
  VerifyMemoryPassOptions verify;
  verify.maxGathersInFlight = options.maxGathersInFlight;
  manager.addNestedPass<func::FuncOp>(createVerifyMemoryPass(verify));
}

} // namespace shale
