//===- Pipeline.cpp - From a forward pass to a training step --------------===//
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"

void shale::buildAutodiffPipeline(mlir::OpPassManager &manager,
                                  const AutodiffOptions &options) {
  // Forward, backward and update of one step from the forward pass.
  AutodiffPassOptions autodiff;
  autodiff.optimizer = options.optimizer;
  autodiff.accumulate = options.accumulate;
  manager.addPass(createAutodiffPass(autodiff));
  // Gradient rules make a constant wherever they need one.
  manager.addPass(mlir::createCSEPass());
  // The contract with the stages that follow.
  manager.addPass(createVerifyStepPass());
}
