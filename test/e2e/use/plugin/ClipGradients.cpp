//===- ClipGradients.cpp - Limits each element of a gradient --------------===//
#include "Acme.h"
#include "dialects/nn/Gradients/Build.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace acme {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_CLIPGRADIENTSPASS
#include "AcmePasses.h.inc"
} // namespace acme

using namespace mlir;

/// Limits the gradients of all updates in `function`. An update multiplies its gradient by `scale`
/// (clipping by norm and the mean over labels), so the limit is applied after that factor, which
/// becomes one: one value for all updates, since the updates of a unit become one.
static void clip(func::FuncOp function, double limit) {
  Value one;
  function.walk([&](shale::OptimizerUpdateOpInterface update) {
    OpBuilder builder(update);
    shale::nn::Build b{builder, update.getLoc()};
    OpOperand &gradient = update.getGradientOperand();
    OpOperand &scale = update->getOpOperand(update.getEnableNumber() + 1);
    auto type = b.type(gradient.get());
    Value scaled = b.mul(gradient.get(), b.broadcast(scale.get(), type, {}));
    Value above = b.binary<shale::nn::MaxOp>(scaled, b.constant(scaled, -limit));
    gradient.set(b.binary<shale::nn::MinOp>(above, b.constant(scaled, limit)));
    if (!one)
      one = b.constant(scale.get(), 1);
    scale.set(one);
  });
}

namespace {
struct ClipGradientsPass : acme::impl::ClipGradientsPassBase<ClipGradientsPass> {
  using ClipGradientsPassBase::ClipGradientsPassBase;

  void runOnOperation() override {
    if (!(limit > 0)) {
      getOperation().emitError("acme-clip-gradients: limit must be positive");
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      clip(function, limit);
  }
};
} // namespace

void acme::registerAcmePasses() { PassRegistration<ClipGradientsPass>(); }
