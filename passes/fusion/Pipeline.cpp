//===- Pipeline.cpp - The fusion stage ------------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/fusion/Passes.h"

using namespace shale;

void shale::buildFusionPipeline(mlir::OpPassManager &pm, const FusionOptions &options) {
  // Norms, losses and the like become elementwise ops and reductions.
  pm.addPass(createDecomposePass());
  // These become kernels.
  FusionPassOptions fusion;
  fusion.singletons = options.singletons;
  pm.addPass(createFusionPass(fusion));
}


