//===- Backward.cpp - Gradients of the trained parameters -----------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/autodiff/GradientBuilder.h"
#include "passes/autodiff/Mean.h"
#include "passes/autodiff/StepBuilder.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace shale;

Value StepBuilder::seed(Value loss) {
  if (scale.value && divisor == 1)
    return scale.value;
  PhaseScope backward(builder, nn::Phase::Backward);
  Value seed =
      nn::splat(builder, loss.getLoc(), cast<RankedTensorType>(loss.getType()), 1 / divisor);
  if (scale.value)
    seed = nn::MulOp::create(builder, loss.getLoc(), scalarType(), scale.value, seed);
  return seed;
}

LogicalResult StepBuilder::buildBackward() {
  Block &body = function.getBody().front();
  SmallVector<Value> wanted;
  for (Trained &t : trained)
    wanted.push_back(t.value);
  GradientBuilder gradients(builder, body, wanted);
  builder.setInsertionPoint(body.getTerminator());
  Value loss = body.getTerminator()->getOperand(0);
  if (microbatches > 1) {
    // Gradients are those of the sum: the step divides by its whole count.
    findMean();
    loss = sum;
    // Count the labels of all micro-batches: each is a part of the step's mean, and their sum may
    // be sent in f16.
    if (scale.value)
      divisor = countScale(count) * llvm::bit_ceil<uint64_t>(microbatches);
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
  module.walk([](nn::StopGradientOp stop) {
    stop.replaceAllUsesWith(stop.getInput());
    stop.erase();
  });
}
