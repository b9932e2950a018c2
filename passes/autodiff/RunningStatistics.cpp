//===- RunningStatistics.cpp - New values of the buffers of a model -------===//
#include "passes/autodiff/RunningStatistics.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Norm.h"

using namespace mlir;
using namespace shale;

LogicalResult RunningStatistics::take(func::FuncOp forward, FlatSymbolRefAttr name, Value value) {
  nn::StateOp state = nn::getState(forward->getParentOfType<ModuleOp>(), name);
  if (!state || state.getRole() != nn::Role::Buffer || state.getTensorType() != value.getType())
    return forward.emitError("@forward returns a new value of ")
           << name << ", which is no buffer of that type";
  if (!values.try_emplace(state, value).second)
    return forward.emitError("@forward returns two new values of ") << name;
  state.setRole(nn::Role::Running);
  return success();
}

LogicalResult RunningStatistics::build(StepFunctionBuilder &builder, bool hasGivenGradients) {
  PhaseScope update(builder, nn::Phase::Update);
  for (auto op : llvm::make_early_inc_range(builder.getBody().getOps<nn::RunningStatisticOp>())) {
    auto argument = dyn_cast<BlockArgument>(op.getRunning());
    nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
    if (!state || state.isTrainedParameter())
      return op.emitOpError("needs a buffer of the model as its running statistic");
    if (hasGivenGradients)
      return op.emitOpError("has statistics of the batch, and the file computes the gradients: "
                            "export the forward pass only");
    state.setRole(nn::Role::Running);
    state.removeTrainedAttr();
    builder.setInsertionPoint(op);
    auto scaled = [&](Value value, double factor) -> Value {
      auto type = cast<RankedTensorType>(value.getType());
      return nn::MulOp::create(builder, op.getLoc(), type, value,
                               nn::splat(builder, op.getLoc(), type, factor));
    };
    double momentum = op.getMomentum().convertToDouble();
    Value &running = values.try_emplace(state, argument).first->second;
    running =
        nn::AddOp::create(builder, op.getLoc(), running.getType(), scaled(running, 1 - momentum),
                          scaled(op.getBatch(), op.getFactor().convertToDouble() * momentum));
    op.replaceAllUsesWith(op.getBatch());
    op.erase();
  }
  return success();
}

void RunningStatistics::addResults(StepFunctionBuilder &builder,
                                   llvm::function_ref<Value(Value)> map,
                                   StepResults &results) const {
  for (auto [state, value] : values)
    results.add(map(value), builder.stateAttr(state));
}
