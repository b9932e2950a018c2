//===- Pipeline.cpp - The precision stage ---------------------------------===//
#include "passes/precision/Passes.h"

void shale::buildPrecisionPipeline(mlir::OpPassManager &manager, RoundingKind rounding) {
  // Apply the policy to types, with casts where types differ.
  manager.addPass(createPrecisionPass());
  // Updates of parameters that have no f32 copies.
  if (rounding == RoundingKind::Stochastic)
    manager.addPass(createRoundParametersPass());
  // Check what the sharding stage and the reports rely on.
  manager.addPass(createVerifyPrecisionPass());
}
