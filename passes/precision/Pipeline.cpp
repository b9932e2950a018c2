//===- Pipeline.cpp - The precision stage ---------------------------------===//
#include "passes/precision/Passes.h"

void shale::buildPrecisionPipeline(mlir::OpPassManager &manager) {
  // The policy becomes types, with a cast where they differ.
  manager.addPass(createPrecisionPass());
  // What the partitioner and the reports rely on.
  manager.addPass(createVerifyPrecisionPass());
}
