//===- Momentum.cpp - ONNX's Momentum -----------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"momentum"};
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"momentum", HyperSource::Flag, 0.9, 1, false, "factor of the velocity"},
    {"gradient_weight", HyperSource::Flag, 1, 1e6, false,
     "weight of the gradient in the velocity after the first update: 1 - PyTorch's dampening"},
    {"nesterov", HyperSource::Flag, 0, 1, false, "1: Nesterov's momentum; 0: standard momentum"},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay"},
    {"weight", HyperSource::AfterFirst, 0, 0, false, "gradient_weight"},
};

const Optimizer &MomentumOp::getOptimizer() {
  static const Optimizer optimizer{"momentum", slots, hypers};
  return optimizer;
}

SmallVector<Value> MomentumOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, velocity, gradient] = reals(at, in.getParam(), in.getVelocity(), in.getGrad());
  auto [lr, momentum, nesterov, weightDecay, weight] = reals(
      at, in.getLr(), in.getMomentum(), in.getNesterov(), in.getWeightDecay(), in.getWeight());
  Real g = gradient + param * weightDecay;
  Real v = velocity * momentum + g * weight;
  Real direction = nesterov * (g + v * momentum) + (1 - nesterov) * v;
  return {param - lr * direction, v};
}
