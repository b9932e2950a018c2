//===- LossScale.cpp - Scaling of gradients that pass through f16 ---------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/State.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

bool StepBuilder::needsLossScale() {
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  return policy && policy.needsLossScale();
}

void StepBuilder::declareLossScale() {
  if (!needsLossScale())
    return;
  constexpr double first = 65536;
  auto declare = [&](StringRef name, double init) -> Scaling {
    builder.setInsertionPoint(function);
    auto state =
        nn::StateOp::create(builder, function.getLoc(), name, nn::Role::LossScale, scalarType());
    state.setInitAttr(nn::FillAttr::get(builder.getContext(), builder.getF64FloatAttr(init)));
    return {state, addArgument(scalarType(), stateAttr(state), function.getLoc()), Value()};
  };
  scale = declare("loss_scale", first);
  goodSteps = declare("loss_scale.good_steps", 0);
}

// As torch.amp.GradScaler: halves the scale after a step that is not finite, and doubles it after
// 2000 consecutive good ones.
void StepBuilder::updateLossScale(Value finite) {
  Value good = binary<nn::AddOp>(goodSteps.value, constant(1));
  Value grows = compare(nn::Predicate::GE, good, constant(2000));
  Value grown = select(grows, binary<nn::MulOp>(scale.value, constant(2)), scale.value);
  scale.next = select(finite, grown, binary<nn::MulOp>(scale.value, constant(0.5)));
  Value none = constant(0);
  goodSteps.next = select(finite, select(grows, none, good), none);
}
