//===- Pipeline.cpp - The precision stage ---------------------------------===//
#include "lib/Options/Options.h"
#include "passes/precision/Passes.h"

void shale::buildPrecisionPipeline(mlir::OpPassManager &manager, const CompileOptions &options) {
  // Apply the policy to types, with casts where types differ.
  manager.addPass(createPrecisionPass());
  // Updates of parameters that have no f32 copies.
  if (options.paramRounding == RoundingKind::Stochastic)
    manager.addPass(createRoundParametersPass());
  // Check what the sharding stage and the reports rely on.
  manager.addPass(createVerifyPrecisionPass());
}
