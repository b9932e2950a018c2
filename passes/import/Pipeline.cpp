//===- Pipeline.cpp - Order of the import passes --------------------------===//
#include "lib/Options/Options.h"
#include "mlir/Transforms/Passes.h"
#include "passes/import/Passes.h"

void shale::buildImportPipeline(mlir::OpPassManager &manager, const CompileOptions &options) {
  // Merge equal constants and broadcasts, so that patterns match one form.
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  // Move the batch to the front in models that compute on [T, B, E].
  manager.addPass(createSinkMovementPass());
  // Attention's keys are transposed through reshapes.
  manager.addPass(createSimplifyMovementPass());
  if (options.recover) {
    manager.addPass(createRecoverNormPass());
    manager.addPass(createRecoverActivationPass());
    // Before attention: rotary positions are between the projections and the
    // scores.
    manager.addPass(createRecoverRopePass());
    manager.addPass(createRecoverAttentionPass());
    manager.addPass(createRecoverExpertsPass());
  }
  // Recovery leaves dead decompositions.
  manager.addPass(createSimplifyMovementPass());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
}
