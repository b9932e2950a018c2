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

SmallVector<Value> AdamwOp::emitUpdate(const UpdateElement &at) {
  return emitAdamw(at, Adaptor(at.operands, *this));
}
