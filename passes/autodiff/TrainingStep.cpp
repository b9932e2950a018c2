//===- TrainingStep.cpp - From @forward to @step and @evaluate ------------===//
#include "passes/autodiff/TrainingStep.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/DeadOps.h"
#include "passes/autodiff/ExpertLoad.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

LogicalResult StepBuilder::checkForward() {
  func::FuncOp function = builder.getFunction();
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("@forward must have one block");
  Operation *terminator = builder.getReturn();
  if (terminator->getNumOperands() < 3)
    return function.emitError("@forward must return three scalars: loss, loss_sum and count");
  for (Value result : terminator->getOperands().take_front(3)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
      return function.emitError("expected @forward to return float scalars, got ")
             << result.getType();
  }
  for (StringRef name : {"step", "evaluate", "accumulate", "accumulate_first"})
    if (builder.getModule().lookupSymbol(name))
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
  return given.take(statistics);
}

LogicalResult StepBuilder::build() {
  if (failed(checkForward()))
    return failure();
  makeEvaluate();
  if (failed(statistics.build(builder, !given.empty())))
    return failure();
  if (given.empty()) {
    scale.declare();
    if (failed(buildBackward()))
      return failure();
  } else {
    given.use(scale, accumulation);
  }
  if ((accumulation.isNeeded() && failed(accumulation.build(statistics))) ||
      failed(update.declareMoments()))
    return failure();
  // A step that is skipped because of its loss scale is no reason to stop, and the settings of
  // the next step depend on it: the process waits for each step.
  update.declareHypers(/*runsAhead=*/target.runsAhead() && !scale.isUsed());
  buildUpdate();
  dropStops();
  eraseDeadOps(builder.getBody());
  return success();
}

/// Ends @step with the update, and sets its results.
void StepBuilder::buildUpdate() {
  builder.setInsertionPoint(builder.getReturn());
  ExpertLoad experts(builder);
  experts.count(builder.getBody());
  PhaseScope phase(builder, nn::Phase::Update);
  StepChecks checks = update.build(scale, accumulation.getCount());
  StepResults results;
  results.add(builder.getReturn()->getOperand(0), builder.metric("loss"));
  results.add(checks.norm, builder.metric("grad_norm"));
  results.add(checks.enable, builder.metric("enable"));
  if (scale.isUsed()) {
    results.add(scale.getValue(), builder.metric("loss_scale"));
    scale.update(checks.finite); // a norm above the limit is no reason for another scale
  }
  for (const auto &[name, value] : experts.build(builder.getLoc()))
    results.add(value, builder.metric(name));
  update.addStates(results);
  statistics.addResults(builder, [](Value value) { return value; }, results);
  if (scale.isUsed())
    scale.addStates(results);
  builder.setResults(results);
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
  return StepBuilder(forward, optimizer, microbatches, *target).build();
}
