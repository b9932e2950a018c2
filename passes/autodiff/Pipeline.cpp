//===- Pipeline.cpp - From a forward pass to a training step --------------===//
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"

void shale::buildAutodiffPipeline(mlir::OpPassManager &manager, const AutodiffOptions &options) {
  // Build forward, backward and update of one step.
  AutodiffPassOptions autodiff;
  autodiff.optimizer = options.optimizer;
  autodiff.accumulate = options.accumulate;
  manager.addPass(createAutodiffPass(autodiff));
  // Merge the constants that gradient rules create.
  manager.addPass(mlir::createCSEPass());
  // Check the contract with the stages that follow.
  manager.addPass(createVerifyStepPass());
}
