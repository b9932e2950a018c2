//===- Pipeline.cpp - The precision stage ---------------------------------===//
#include "passes/precision/Passes.h"

void shale::buildPrecisionPipeline(mlir::OpPassManager &manager) {
  // Apply the policy to types, with casts where types differ.
  manager.addPass(createPrecisionPass());
  // Check what the sharding stage and the reports rely on.
  manager.addPass(createVerifyPrecisionPass());
}
