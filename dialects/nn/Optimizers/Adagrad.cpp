//===- Adagrad.cpp - Adagrad --------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"sum"};
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"lr_decay", HyperSource::Flag, 0, 1e6, false, "decay of the learning rate"},
    {"eps", HyperSource::Flag, 1e-10, 1e6, false, "added to the root of the sum of squares"},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay"},
    {"rate", HyperSource::InverseDecay, 0, 0, false, "lr_decay"},
};

const Optimizer &AdagradOp::getOptimizer() {
  static const Optimizer optimizer{"adagrad", slots, hypers};
  return optimizer;
}

SmallVector<Value> AdagradOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, sum, gradient] = reals(at, in.getParam(), in.getSum(), in.getGrad());
  auto [lr, epsilon, weightDecay, rate] =
      reals(at, in.getLr(), in.getEpsilon(), in.getWeightDecay(), in.getRate());
  Real g = gradient + param * weightDecay;
  Real s = sum + g * g;
  return {param - lr * rate * g / (sqrt(s) + epsilon), s};
}
