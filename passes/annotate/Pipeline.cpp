//===- Pipeline.cpp - Policies, as attributes -----------------------------===//
#include "passes/annotate/Passes.h"

namespace shale {

void buildAnnotatePipeline(mlir::OpPassManager &manager,
                           const AnnotateOptions &options) {
  // Where the program runs, and what is split at rest.
  AnnotateMeshPassOptions mesh;
  mesh.mesh = options.mesh;
  mesh.strategy = options.strategy;
  mesh.reshardAfterForward = options.reshardAfterForward;
  mesh.syncEveryMicrobatch = options.syncEveryMicrobatch;
  manager.addPass(createAnnotateMeshPass(mesh));
  // What is gathered together.
  manager.addPass(createAnnotateUnitsPass({options.unitPolicy}));
  // What the data may hold; programs refuse other values.
  manager.addPass(createAnnotateRangesPass());
  // In which types it is computed and kept.
  AnnotatePrecisionPassOptions precision;
  precision.param = options.paramDtype;
  precision.reduce = options.reduceDtype;
  precision.buffer = options.bufferDtype;
  precision.master = options.masterDtype;
  precision.optimizer = options.optimizerDtype;
  manager.addPass(createAnnotatePrecisionPass(precision));
  // What is not trained, what does not decay.
  if (!options.freeze.empty())
    manager.addPass(createFreezePass({options.freeze}));
  if (!options.noDecay.empty())
    manager.addPass(createNoDecayPass({options.noDecay}));
}

} // namespace shale
