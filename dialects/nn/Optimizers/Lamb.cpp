//===- Lamb.cpp - LAMB ----------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/GroupComposer.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"moment1", "moment2"};
// Defaults are those of NVIDIA's FusedLAMB.
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"beta1", HyperSource::Flag, 0.9, 1, true, "decay of the first moment"},
    {"beta2", HyperSource::Flag, 0.999, 1, true, "decay of the second moment"},
    // Above 0: the update of padding, whose moments are 0, must not be 0 / 0.
    {"eps", HyperSource::Flag, 1e-6, 1e6, false, "added to the root of the second moment", 1e-30},
    {"weight_decay", HyperSource::Flag, 0.01, 1e6, false, "weight decay"},
    {"bias1", HyperSource::BiasCorrection, 0, 0, false, "beta1"},
    {"bias2", HyperSource::BiasCorrection, 0, 0, false, "beta2"},
};

const Optimizer &LambOp::getOptimizer() {
  static const Optimizer optimizer{"lamb", slots, hypers};
  return optimizer;
}

SmallVector<Value> LambOp::buildGroupUpdate(OpBuilder &builder, const GroupUpdate &group) {
  GroupComposer b(builder, *this, group);
  Adaptor in(group.operands, *this);
  Type f32 = Composer::elementOf(in.getScale());
  Value param = b.cast(in.getParam(), f32), m = b.cast(in.getMoment1(), f32),
        v = b.cast(in.getMoment2(), f32);
  auto all = [&](Value value) { return b.scalar(value, param); };
  auto complement = [&](Value beta) { return b.sub(b.splat(param, 1), all(beta)); };
  Value g = b.mul(b.cast(in.getGrad(), f32), all(in.getScale()));
  Value next1 = b.add(b.mul(m, all(in.getBeta1())), b.mul(g, complement(in.getBeta1())));
  Value next2 = b.add(b.mul(v, all(in.getBeta2())), b.mul(b.mul(g, g), complement(in.getBeta2())));
  Value root = b.sqrt(b.div(next2, all(in.getBias2())));
  Value direction = b.div(b.div(next1, all(in.getBias1())), b.add(root, all(in.getEpsilon())));
  Value update = b.add(direction, b.mul(param, b.scaled(getWeightDecayMutable(), param)));

  // A ratio of roots of means is that of the norms.
  SmallVector<Value> sums = group.sumOverSlices({b.squares(param), b.squares(update)});
  Value zero = b.splat(sums[0], 0), one = b.splat(sums[0], 1);
  Value both =
      b.both(b.compare(Predicate::GT, sums[0], zero), b.compare(Predicate::GT, sums[1], zero));
  Value ratio = b.select(both, b.div(b.sqrt(sums[0]), b.sqrt(sums[1])), one);
  Value rate = b.mul(ratio, b.scaled(getLrMutable(), ratio));
  Value next = b.sub(param, b.mul(b.spread(rate, param), update));

  // Disabled, every result has its operand's bits.
  Value enable = b.broadcast(in.getEnable(), Composer::type(param).getShape(), {});
  auto kept = [&](Value value, Value old) {
    return b.select(enable, b.cast(value, Composer::elementOf(old)), old);
  };
  Value made = getRounding().empty() ? kept(next, in.getParam())
                                     : b.assign(in.getParam(), next, in.getEnable(), in.getScale());
  return {made, kept(next1, in.getMoment1()), kept(next2, in.getMoment2())};
}
