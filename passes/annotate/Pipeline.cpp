//===- Pipeline.cpp - The annotate stage ----------------------------------===//
#include "passes/annotate/Passes.h"

namespace shale {

void buildAnnotatePipeline(mlir::OpPassManager &manager, const AnnotateOptions &options) {
  // The mesh, and the strategy that splits state at rest.
  AnnotateMeshPassOptions mesh;
  mesh.mesh = options.mesh;
  mesh.strategy = options.strategy;
  mesh.reshardAfterForward = options.reshardAfterForward;
  mesh.syncEveryMicrobatch = options.syncEveryMicrobatch;
  mesh.keepSingleRank = options.keepSingleRank;
  mesh.wire = options.wire;
  manager.addPass(createAnnotateMeshPass(mesh));
  // Units, which are gathered together.
  manager.addPass(createAnnotateUnitsPass({options.unitPolicy}));
  // Valid values of the data; programs reject others.
  manager.addPass(createAnnotateRangesPass());
  // Types in which values are computed and stored.
  AnnotatePrecisionPassOptions precision;
  precision.param = options.paramDtype;
  precision.reduce = options.reduceDtype;
  precision.buffer = options.bufferDtype;
  precision.master = options.masterDtype;
  precision.optimizer = options.optimizerDtype;
  manager.addPass(createAnnotatePrecisionPass(precision));
  // Products of 8-bit floats. After precision, on which they depend.
  if (options.productDtype == ProductKind::FP8)
    manager.addPass(createAnnotateProductsPass());
  // Parameters that are not trained, those without decay, and those with other factors in their
  // updates.
  if (!options.freeze.empty())
    manager.addPass(createFreezePass({options.freeze}));
  if (!options.noDecay.empty())
    manager.addPass(createNoDecayPass({options.noDecay}));
  for (const auto &[factor, scales] : options.updateScales)
    manager.addPass(createScaleUpdatesPass({factor, scales}));
  // Parameters that another optimizer updates than the others.
  AssignOptimizersPassOptions optimizers;
  optimizers.optimizer = options.optimizer;
  optimizers.choices = options.optimizers;
  manager.addPass(createAssignOptimizersPass(optimizers));
  // Parameters that tensor axes split.
  if (!options.tensor.entries.empty())
    manager.addPass(createAnnotateTensorPass({options.tensor}));
}

} // namespace shale
