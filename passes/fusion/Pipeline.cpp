//===- Pipeline.cpp - The fusion stage ------------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/fusion/Passes.h"

using namespace shale;

void shale::buildFusionPipeline(mlir::OpPassManager &pm, const FusionOptions &options) {
  // What is sent in another type than it is stored in is cast first.
  pm.addPass(createConvertGathersPass());
  // 16-bit floats that the target does not compute with become f32.
  pm.addPass(createWidenPass());
  // Norms, losses and the like become elementwise ops and reductions.
  pm.addPass(createDecomposePass());
  // These become kernels.
  FusionPassOptions fusion;
  fusion.singletons = options.singletons;
  pm.addPass(createFusionPass(fusion));
  // Ops without a kernel are reported here, before anything is planned.
  pm.addPass(createSplitClustersPass());
}
