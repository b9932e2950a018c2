//===- Pipeline.cpp - The annotate stage ----------------------------------===//
#include "dialects/nn/UpdateFactors.h"
#include "lib/Options/PassOptions.h"
#include "passes/annotate/Passes.h"

namespace shale {

void buildAnnotatePipeline(mlir::OpPassManager &manager, const CompileOptions &options) {
  // The mesh, and the strategy that splits state at rest.
  manager.addPass(createAnnotateMeshPass(optionsOf<AnnotateMeshPassOptions>(options)));
  // Units, which are gathered together.
  manager.addPass(createAnnotateUnitsPass(optionsOf<AnnotateUnitsPassOptions>(options)));
  // Valid values of the data; programs reject others.
  manager.addPass(createAnnotateRangesPass());
  // Types in which values are computed and stored.
  manager.addPass(createAnnotatePrecisionPass(optionsOf<AnnotatePrecisionPassOptions>(options)));
  // Matmuls of 8-bit floats. After precision, on which they depend.
  if (options.matmulDtype == MatmulKind::FP8)
    manager.addPass(createAnnotateMatmulsPass());
  // Parameters that are not trained, those without decay, and those with other factors in their
  // updates.
  if (!options.freeze.empty())
    manager.addPass(createFreezePass(optionsOf<FreezePassOptions>(options)));
  if (!options.noDecay.empty())
    manager.addPass(createNoDecayPass(optionsOf<NoDecayPassOptions>(options)));
  if (!options.lrScale.entries.empty())
    manager.addPass(createScaleUpdatesPass(
        {nn::stringifyUpdateFactor(nn::UpdateFactor::LrScale).str(), options.lrScale}));
  // Parameters that another optimizer updates than the others.
  manager.addPass(createAssignOptimizersPass(optionsOf<AssignOptimizersPassOptions>(options)));
  // Parameters that tensor axes split.
  if (!options.tensor.entries.empty())
    manager.addPass(createAnnotateTensorPass(optionsOf<AnnotateTensorPassOptions>(options)));
}

} // namespace shale
