//===- Adafactor.cpp - Adafactor ------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/GroupComposer.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"variance"};
// Defaults and ranges are those of torch.optim.Adafactor. Its eps has two parts here, and its d is
// named clip_threshold.
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"beta2_decay", HyperSource::Flag, -0.8, 0, false,
     "exponent X of the weight t^X of step t in the second moment", -1e6},
    {"eps1", HyperSource::Flag, 1.1920928955078125e-7, 1e6, false,
     "lower bound of the RMS of a gradient: the first part of PyTorch's eps"},
    {"eps2", HyperSource::Flag, 1e-3, 1e6, false,
     "lower bound of the RMS of a parameter in its step size"},
    {"clip_threshold", HyperSource::Flag, 1, 1e6, false,
     "upper bound of the RMS of an update, before the learning rate", 1},
    {"weight_decay", HyperSource::Flag, 0, 1e6, false, "weight decay"},
    {"variance_weight", HyperSource::StepPower, 0, 0, false, "beta2_decay"},
    {"rate_limit", HyperSource::StepPower, -0.5},
};

/// The shape of the moment of `nn.adafactor`.
static SmallVector<int64_t> factoredShape(ArrayRef<int64_t> param) {
  if (param.size() < 2)
    return SmallVector<int64_t>(param);
  return {Factors::of(param).size()};
}

const Optimizer &AdafactorOp::getOptimizer() {
  static const Optimizer optimizer{"adafactor", slots, hypers, factoredShape};
  return optimizer;
}

SmallVector<Value> AdafactorOp::buildGroupUpdate(OpBuilder &builder, const GroupUpdate &group) {
  GroupComposer b(builder, *this, group);
  Adaptor in(group.operands, *this);
  Type f32 = Composer::elementOf(in.getScale());
  Value param = b.cast(in.getParam(), f32), moment = b.cast(in.getMoment(), f32);
  auto all = [&](Value value) { return b.scalar(value, param); };
  // Built again for each reader, so that it is a part of the readers' kernels and not stored.
  auto gradient = [&] { return b.mul(b.cast(in.getGrad(), f32), all(in.getScale())); };

  // The means of this step, or, for a slice, its contribution to them.
  SmallVector<Value> sums =
      group.sumOverSlices({b.factorSquares(gradient(), moment), b.squares(param)});
  Value next = b.add(moment, b.mul(b.sub(sums[0], moment), b.scalar(in.getWeight(), moment)));
  next = b.select(b.scalar(in.getEnable(), moment), next, moment);
  Value rows = b.normalizeRows(next, in.getEpsilon1());
  auto direction = [&] {
    Value variance = b.mul(b.alongRows(rows, param), b.alongColumns(next, param));
    Value least = b.mul(all(in.getEpsilon1()), all(in.getEpsilon1()));
    return b.div(gradient(), b.sqrt(b.max(variance, least)));
  };
  Value directions = group.sumOverSlices(b.squares(direction())).front();

  auto like = [&](Value scalar) { return b.scalar(scalar, directions); };
  Value size = b.max(like(in.getEpsilon2()), b.sqrt(sums[1]));
  Value clip = b.max(b.splat(directions, 1), b.div(b.sqrt(directions), like(in.getClip())));
  Value limited = b.min(b.scaled(getLrMutable(), directions), like(in.getLimit()));
  Value rates = b.div(b.mul(size, limited), clip);
  Value decay = b.mul(b.scaled(getLrMutable(), param), b.scaled(getWeightDecayMutable(), param));
  Value made = b.sub(b.mul(param, b.sub(b.splat(param, 1), decay)),
                     b.mul(b.spread(rates, param), direction()));
  // Padding, and all elements if the update is disabled, keep their bits.
  Value isUpdated = b.both(b.inside(param), b.scalar(in.getEnable(), param));
  if (getRounding().empty())
    made = b.select(isUpdated, b.cast(made, Composer::elementOf(in.getParam())), in.getParam());
  else
    made = b.assign(in.getParam(), made, in.getEnable(), in.getScale());
  return {made, b.cast(next, Composer::elementOf(in.getMoment()))};
}
