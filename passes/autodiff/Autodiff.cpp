//===- Autodiff.cpp - Builds the training step from the forward pass ------===//
#include "dialects/nn/NN.h"
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
    auto kind = parseOptimizer(optimizer);
    if (!kind) {
      getOperation().emitError("unknown optimizer '")
          << optimizer << "': adamw and sgd are known";
      return signalPassFailure();
    }
    if (failed(buildTrainingStep(getOperation(), *kind, accumulate)))
      signalPassFailure();
  }
};

} // namespace
} // namespace shale
