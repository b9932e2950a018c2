//===- Lion.cpp - Lion ----------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"momentum"};
// The defaults are those of the authors' code.
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"beta1", HyperSource::Flag, 0.9, 1, true, "weight of the momentum in the update's sign"},
    {"beta2", HyperSource::Flag, 0.99, 1, true, "decay of the momentum"},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay"},
};

const Optimizer &LionOp::getOptimizer() {
  static const Optimizer optimizer{"lion", slots, hypers};
  return optimizer;
}

SmallVector<Value> LionOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, momentum, g] = reals(at, in.getParam(), in.getMomentum(), in.getGrad());
  auto [lr, beta1, beta2, weightDecay] =
      reals(at, in.getLr(), in.getBeta1(), in.getBeta2(), in.getWeightDecay());
  Real p = param * (1 - lr * weightDecay);
  Real direction = sign(momentum * beta1 + g * (1 - beta1));
  return {p - lr * direction, momentum * beta2 + g * (1 - beta2)};
}
