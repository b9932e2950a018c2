//===- TrainingStep.cpp - From @forward to @step and @evaluate ------------===//
#include "passes/autodiff/TrainingStep.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/DeadOps.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

LogicalResult StepBuilder::checkForward() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("@forward must have one block");
  Operation *terminator = function.getBody().front().getTerminator();
  if (terminator->getNumOperands() < 3)
    return function.emitError("@forward must return three scalars: loss, loss_sum and count");
  for (Value result : terminator->getOperands().take_front(3)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
      return function.emitError("expected @forward to return float scalars, got ")
             << result.getType();
  }
  for (StringRef name : {"step", "evaluate", "accumulate", "accumulate_first"})
    if (module.lookupSymbol(name))
      return function.emitError("the module has a @") << name << " already";
  for (BlockArgument argument : function.getArguments()) {
    auto symbol =
        function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
    if (!symbol)
      continue;
    nn::StateOp state = nn::getState(argument);
    if (!state || state.getTensorType() != argument.getType())
      return function.emitError("argument ")
             << argument.getArgNumber() << " is not of the type of the state " << symbol;
    if (state.isTrainedParameter()) {
      Trained next;
      next.state = state;
      next.value = argument;
      trained.push_back(std::move(next));
    }
  }
  if (trained.empty())
    return function.emitError("there is no parameter to train");
  return readGivenGradients();
}

LogicalResult StepBuilder::build() {
  if (failed(checkForward()))
    return failure();
  dropGivenGradients();
  makeEvaluate();
  if (failed(takeStatistics()))
    return failure();
  if (givenGradients.empty()) {
    declareLossScale();
    if (failed(buildBackward()))
      return failure();
  } else {
    takeGivenGradients();
  }
  if ((microbatches > 1 && failed(accumulate())) || failed(declareMoments()))
    return failure();
  declareHypers();
  buildUpdate();
  dropStops();
  eraseDeadOps(function.getBody().front());
  return success();
}

LogicalResult shale::buildTrainingStep(ModuleOp module, const nn::Optimizer &optimizer,
                                       int64_t microbatches) {
  if (microbatches < 1 || microbatches > 65535)
    return module.emitError("a step must consume from 1 to 65535 micro-batches; got ")
           << microbatches;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward)
    return module.emitError("there is no function @forward to train");
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  return StepBuilder(module, forward, optimizer, microbatches, *target).build();
}
