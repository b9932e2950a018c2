//===- Sgd.cpp - SGD with momentum ----------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"momentum"};
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"momentum", HyperSource::Flag, 0, 1, false, "factor of the earlier steps' sum"},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay"},
};

const Optimizer &SgdOp::getOptimizer() {
  static const Optimizer optimizer{"sgd", slots, hypers};
  return optimizer;
}

SmallVector<Value> SgdOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, velocity, gradient] = reals(at, in.getParam(), in.getVelocity(), in.getGrad());
  auto [lr, momentum, weightDecay] = reals(at, in.getLr(), in.getMomentum(), in.getWeightDecay());
  Real g = gradient + param * weightDecay;
  Real v = velocity * momentum + g;
  return {param - lr * v, v};
}
