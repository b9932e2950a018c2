//===- Backward.cpp - Gradients of the trained parameters -----------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/autodiff/GradientBuilder.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

Value StepBuilder::seed(Value loss) {
  if (scale.isUsed() && scale.getDivisor() == 1)
    return scale.getValue();
  PhaseScope backward(builder, nn::Phase::Backward);
  Value seed = nn::splat(builder, loss.getLoc(), cast<RankedTensorType>(loss.getType()),
                         1 / scale.getDivisor());
  if (scale.isUsed())
    seed = nn::MulOp::create(builder, loss.getLoc(), builder.scalarType(), scale.getValue(), seed);
  return seed;
}

LogicalResult StepBuilder::buildBackward() {
  SmallVector<Value> wanted;
  for (Trained &t : trained)
    wanted.push_back(t.value);
  GradientBuilder gradients(builder, builder.getBody(), wanted);
  builder.setInsertionPoint(builder.getReturn());
  Value loss = builder.getReturn()->getOperand(0);
  if (accumulation.isNeeded()) {
    // Gradients are those of the sum: the step divides by its whole count.
    accumulation.findMean();
    loss = accumulation.getSum();
    if (scale.isUsed())
      scale.divideBy(accumulation.boundLabels());
  }
  gradients.accumulate(loss, seed(loss));
  if (failed(gradients.run()))
    return failure();
  LogicalResult result = success();
  for (Trained &t : trained) {
    t.gradient = gradients.gradient(t.value);
    if (!t.gradient)
      result = t.state.emitError("the loss does not depend on the trained parameter '")
               << t.state.getSymName() << "': " << gradients.explainMissing(t.value)
               << "; freeze it, or leave it out of the model";
  }
  return result;
}

/// Removes `nn.stop_gradient` from all functions: gradients exist by now.
void StepBuilder::dropStops() {
  builder.getModule().walk([](nn::StopGradientOp stop) {
    stop.replaceAllUsesWith(stop.getInput());
    stop.erase();
  });
}
