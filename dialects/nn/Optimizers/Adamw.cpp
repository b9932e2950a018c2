//===- Adamw.cpp - AdamW --------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Blocks.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"moment1", "moment2"};
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"beta1", HyperSource::Flag, 0.9, 1, true, "decay of the first moment"},
    {"beta2", HyperSource::Flag, 0.999, 1, true, "decay of the second moment"},
    {"eps", HyperSource::Flag, 1e-8, 1e6, false, "added to the root of the second moment"},
    {"weight_decay", HyperSource::Flag, 0.01, 1e6, false, "weight decay"},
    {"bias1", HyperSource::BiasCorrection, 0, 0, false, "beta1"},
    {"bias2", HyperSource::BiasCorrection, 0, 0, false, "beta2"},
};

const Optimizer &AdamwOp::getOptimizer() {
  static const Optimizer optimizer{"adamw", slots, hypers};
  return optimizer;
}

SmallVector<Value> shale::nn::emitAdamw(const UpdateElement &at) {
  auto [param, moment1, moment2] = reals<3>(at, at.olds);
  auto [lr, beta1, beta2, epsilon, weightDecay, bias1, bias2] = reals<7>(at, at.hypers);
  auto [g, decay] = reals<2>(at, {at.gradient, at.decay});
  Real p = param * (1 - lr * weightDecay * decay);
  Real m = moment1 + (g - moment1) * (1 - beta1);
  Real v = moment2 * beta2 + g * g * (1 - beta2);
  return {p - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + epsilon), m, v};
}

SmallVector<Value> AdamwOp::emitUpdate(const UpdateElement &at) { return emitAdamw(at); }
