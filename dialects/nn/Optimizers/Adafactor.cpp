//===- Adafactor.cpp - Adafactor ------------------------------------------===//
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"

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
  Composer b(builder, *this);
  Location loc = group.loc;
  Adaptor in(group.operands, *this);
  SmallVector<Attribute> ranges;
  SmallVector<float> factors; // on the learning rate
  for (const GroupUpdate::Segment &segment : group.segments) {
    factors.push_back(segment.rate);
    // The weight decay is multiplied by the learning rate, too.
    ranges.push_back(FactoredRangeAttr::get(getContext(), segment.offset, segment.shape,
                                            segment.stateOffset,
                                            builder.getF64FloatAttr(segment.decay * segment.rate)));
  }
  ArrayAttr segments = builder.getArrayAttr(ranges);
  auto f32 = [&](int64_t count) { return Composer::type(in.getScale()).clone({count}); };
  int64_t count = ranges.size();

  // The means of this step, or, for a slice, its contribution to them.
  Value moment = b.cast(in.getMoment(), Composer::elementOf(in.getScale()));
  Value means = FactorMeansOp::create(builder, loc, moment.getType(), in.getGrad(), in.getScale(),
                                      group.offset, segments);
  Value squares =
      SegmentMeansOp::create(builder, loc, f32(count), in.getParam(), group.offset, segments);
  SmallVector<Value> sums = group.sumOverSlices({means, squares});

  Value next = b.add(moment, b.mul(b.sub(sums[0], moment), b.scalar(in.getWeight(), moment)));
  next = b.select(b.scalar(in.getEnable(), moment), next, moment);
  Value directions = DirectionMeansOp::create(builder, loc, f32(count), in.getGrad(), in.getScale(),
                                              next, in.getEpsilon1(), group.offset, segments);
  directions = group.sumOverSlices(directions).front();

  auto like = [&](Value scalar) { return b.scalar(scalar, squares); };
  Value size = b.max(like(in.getEpsilon2()), b.sqrt(sums[1]));
  Value clip = b.max(b.splat(squares, 1), b.div(b.sqrt(directions), like(in.getClip())));
  Value limited;
  if (llvm::all_of(factors, [](float factor) { return factor == 1; }))
    limited = like(b.min(in.getLr(), in.getLimit()));
  else
    limited = b.min(
        b.mul(like(in.getLr()), b.constant(DenseElementsAttr::get(f32(count), ArrayRef(factors)))),
        like(in.getLimit()));
  Value rates = b.div(b.mul(size, limited), clip);
  Value param =
      FactoredStepOp::create(builder, loc, in.getParam().getType(), in.getParam(), in.getGrad(),
                             in.getEnable(), in.getScale(), in.getLr(), in.getWeightDecay(),
                             in.getEpsilon1(), next, rates, group.offset, segments);
  return {param, b.cast(next, Composer::elementOf(in.getMoment()))};
}
