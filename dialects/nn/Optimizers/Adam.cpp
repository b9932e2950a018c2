//===- Adam.cpp - Adam, epsilon outside of the correction ---------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"moment1", "moment2"};
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"beta1", HyperSource::Flag, 0.9, 1, true, "decay of the first moment"},
    {"beta2", HyperSource::Flag, 0.999, 1, true, "decay of the second moment"},
    {"eps", HyperSource::Flag, 1e-8, 1e6, false, "added to the root of the second moment"},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay, as a part of the gradient"},
    {"decoupled_decay", HyperSource::Flag, 0, 1e6, false,
     "weight decay after the update, times the learning rate"},
    {"shrink", HyperSource::Flag, 0, 1, false, "weight decay after the update"},
    {"bias1", HyperSource::BiasCorrection, 0, 0, false, "beta1"},
    {"bias2", HyperSource::BiasCorrection, 0, 0, false, "beta2"},
};

const Optimizer &AdamOp::getOptimizer() {
  static const Optimizer optimizer{"adam", slots, hypers};
  return optimizer;
}

SmallVector<Value> AdamOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, moment1, moment2, gradient] =
      reals(at, in.getParam(), in.getMoment1(), in.getMoment2(), in.getGrad());
  auto [lr, beta1, beta2, epsilon, weightDecay, decoupled, shrink, bias1, bias2] =
      reals(at, in.getLr(), in.getBeta1(), in.getBeta2(), in.getEpsilon(), in.getWeightDecay(),
            in.getDecoupledDecay(), in.getShrink(), in.getBias1(), in.getBias2());
  Real g = gradient + param * weightDecay;
  Real m = moment1 * beta1 + g * (1 - beta1);
  Real v = moment2 * beta2 + g * g * (1 - beta2);
  Real p = param - lr * sqrt(bias2) / bias1 * m / (sqrt(v) + epsilon);
  return {p * (1 - (lr * decoupled + shrink)), m, v};
}
