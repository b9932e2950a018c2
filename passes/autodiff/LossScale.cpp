//===- LossScale.cpp - Scaling of gradients that pass through f16 ---------===//
#include "passes/autodiff/LossScale.h"
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;
using namespace shale;

bool LossScale::isNeeded() {
  auto policy = builder.getModule()->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  return policy && policy.needsLossScale();
}

void LossScale::declare() {
  if (!isNeeded())
    return;
  constexpr double first = 65536;
  Location loc = builder.getLoc();
  RankedTensorType type = builder.scalarType();
  auto declare = [&](StringRef name, double init) -> Scaling {
    builder.setInsertionPoint(builder.getFunction());
    auto state = nn::StateOp::create(builder, loc, name, nn::Role::LossScale, type);
    state.setInitAttr(nn::FillAttr::get(builder.getContext(), builder.getF64FloatAttr(init)));
    return {state, builder.addArgument(type, builder.stateAttr(state), loc), Value()};
  };
  scale = declare("loss_scale", first);
  goodSteps = declare("loss_scale.good_steps", 0);
}

Value LossScale::buildInverse() {
  return builder.binary<nn::DivOp>(builder.constant(divisor), scale.value);
}

// As torch.amp.GradScaler: halves the scale after a step that is not finite, and doubles it after
// 2000 consecutive good ones.
void LossScale::update(Value finite) {
  Value good = builder.binary<nn::AddOp>(goodSteps.value, builder.constant(1));
  Value grows = builder.compare(nn::Predicate::GE, good, builder.constant(2000));
  Value grown = builder.select(grows, builder.binary<nn::MulOp>(scale.value, builder.constant(2)),
                               scale.value);
  scale.next =
      builder.select(finite, grown, builder.binary<nn::MulOp>(scale.value, builder.constant(0.5)));
  Value none = builder.constant(0);
  goodSteps.next = builder.select(finite, builder.select(grows, none, good), none);
}

void LossScale::addStates(StepResults &results) {
  for (const Scaling &scaling : {scale, goodSteps})
    results.add(scaling.next, builder.stateAttr(scaling.state));
}
