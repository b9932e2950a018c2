//===- Pipeline.cpp - From a forward pass to a training step --------------===//
#include "lib/Options/PassOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"

void shale::buildAutodiffPipeline(mlir::OpPassManager &manager, const CompileOptions &options) {
  // Build forward, backward and update of one step.
  manager.addPass(createAutodiffPass(optionsOf<AutodiffPassOptions>(options)));
  // Merge the constants that gradient rules create.
  manager.addPass(mlir::createCSEPass());
  // Check the contract with the stages that follow.
  manager.addPass(createVerifyStepPass());
}
