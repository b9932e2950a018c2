//===- Autodiff.cpp - Builds the training step from the forward pass ------===//
#include "dialects/nn/NN.h"
#include "dialects/nn/Optimizers.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/autodiff/Passes.h"
#include "passes/autodiff/TrainingStep.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_AUTODIFFPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

struct AutodiffPass : impl::AutodiffPassBase<AutodiffPass> {
  using AutodiffPassBase::AutodiffPassBase;

  void runOnOperation() override {
    const nn::Optimizer *found = nn::getOptimizer(getOperation());
    if (!found)
      found = optimizer;
    if (failed(buildTrainingStep(getOperation(), *found, accumulate)))
      signalPassFailure();
  }
};

} // namespace
} // namespace shale
