//===- Pipeline.cpp - The sharding stage ----------------------------------===//
#include "lib/Options/PassOptions.h"
#include "passes/sharding/Passes.h"

namespace shale {

void buildDivisionPipeline(mlir::OpPassManager &manager) {
  // Matmuls whose results are cut, so that tensor axes can split their parts.
  manager.addPass(createDivideParametersPass());
  // Vocabularies that the ranks of tensor axes do not divide.
  manager.addPass(createPadParametersPass());
  // Key heads that are fewer than the ranks.
  manager.addPass(createRepeatHeadsPass());
}

// No canonicalization or CSE may run between these passes: folding drops annotations.
void buildShardingPipeline(mlir::OpPassManager &manager, const CompileOptions &options) {
  // Compute with experts on the ranks that have their matrices.
  manager.addPass(createSplitExpertsPass());
  // Results of matmuls, which tensor axes may make partial, are added before other terms.
  manager.addPass(createGroupSumsPass());
  // Lay out parameters over tensor axes, as the user's plan says.
  manager.addPass(createPlanShardingPass());
  // Split rows between matmuls, from the layouts that follow from those of parameters.
  manager.addPass(createSplitSequencePass(optionsOf<SplitSequencePassOptions>(options)));
  // Assign a layout to every value...
  manager.addPass(createPropagatePass());
  // ... in which its op can compute it.
  manager.addPass(createVerifyShardedPass());
  // Convert types to local ones, and insert collectives where layouts differ.
  manager.addPass(createPartitionPass());
  // Sum gradients over data axes last, so that whole groups are summed.
  manager.addPass(createDelaySumsPass());
  // Store parameters in flat groups, which the strategy splits and gathers.
  manager.addPass(createMaterializeUnitsPass());
  // Express collectives that the runtime lacks by those that it has.
  manager.addPass(createLowerCollectivesPass());
  // Report collectives that the runtime lacks here, where ops are still those of the model.
  manager.addPass(createVerifyCollectivesPass());
}

} // namespace shale
