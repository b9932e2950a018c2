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

/// Returns the parameters after the update, in f32, and their moments.
static std::pair<Value, Value> update(AdafactorOp op, GroupComposer &b, const GroupUpdate &group) {
  AdafactorOp::Adaptor in(group.operands, op);
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
  Value limited = b.min(b.scaled(op.getLrMutable(), directions), like(in.getLimit()));
  Value rates = b.div(b.mul(size, limited), clip);
  Value decay =
      b.mul(b.scaled(op.getLrMutable(), param), b.scaled(op.getWeightDecayMutable(), param));
  Value made = b.sub(b.mul(param, b.sub(b.splat(param, 1), decay)),
                     b.mul(b.spread(rates, param), direction()));
  return {made, next};
}

/// The same for parameters that tensor axes split: every rank updates the whole parameters, and
/// keeps what it has of them. Their moments are whole on each rank.
static std::pair<Value, Value> updateGathered(AdafactorOp op, OpBuilder &builder,
                                              const GroupUpdate &group) {
  Composer b(builder, op);
  SmallVector<Value> operands(group.operands), params;
  SmallVector<GroupUpdate::Segment> segments;
  for (OpOperand *operand : {&op.getParamMutable(), &op.getGradMutable()}) {
    Value &value = operands[operand->getOperandNumber()];
    params = group.gatherParameters(value);
    SmallVector<Value> flat;
    int64_t count = 0;
    for (Value whole : params) {
      flat.push_back(b.reshape(whole, {Composer::type(whole).getNumElements()}));
      count += Composer::type(whole).getNumElements();
    }
    value = b.concat(flat, {count}, 0);
  }
  int64_t count = 0;
  for (auto [param, segment] : llvm::zip_equal(params, group.segments)) {
    RankedTensorType type = Composer::type(param);
    segments.push_back({count, type.getShape(), segment.factors, segment.stateOffset});
    count += type.getNumElements();
  }
  auto same = [](ValueRange parts) { return SmallVector<Value>(parts); };
  GroupUpdate all = group;
  all.operands = operands;
  all.offset = Value();
  all.segments = segments;
  all.sumOverSlices = same;
  GroupComposer composer(builder, op, all);
  auto [made, next] = update(op, composer, all);
  for (auto [param, segment] : llvm::zip_equal(params, segments)) {
    int64_t elements = Composer::type(param).getNumElements();
    param = b.reshape(b.slice(made, 0, segment.offset, segment.offset + elements), segment.shape);
  }
  return {group.takeSlice(params), next};
}

SmallVector<Value> AdafactorOp::buildGroupUpdate(OpBuilder &builder, const GroupUpdate &group) {
  GroupComposer b(builder, *this, group);
  Adaptor in(group.operands, *this);
  auto [made, next] =
      group.isSplit ? updateGathered(*this, builder, group) : update(*this, b, group);
  // Padding, and all elements if the update is disabled, keep their bits.
  if (getRounding().empty()) {
    Value isUpdated = b.both(b.inside(made), b.scalar(in.getEnable(), made));
    made = b.select(isUpdated, b.cast(made, Composer::elementOf(in.getParam())), in.getParam());
  } else {
    made = b.assign(in.getParam(), made, in.getEnable(), in.getScale());
  }
  return {made, b.cast(next, Composer::elementOf(in.getMoment()))};
}
