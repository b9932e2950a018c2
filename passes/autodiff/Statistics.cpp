//===- Statistics.cpp - Running statistics of batch normalization ---------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Norm.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

/// Replaces each `nn.running_statistic` of @step by the statistic of the batch, and builds the new
/// value of its state. Modules that are called twice update their statistics twice, in order.
LogicalResult StepBuilder::takeStatistics() {
  PhaseScope update(builder, nn::Phase::Update);
  for (auto op :
       llvm::make_early_inc_range(function.getBody().front().getOps<nn::RunningStatisticOp>())) {
    auto argument = dyn_cast<BlockArgument>(op.getRunning());
    nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
    if (!state || state.isTrainedParameter())
      return op.emitOpError("needs a buffer of the model as its running statistic");
    if (!givenGradients.empty())
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
    Value &running = statistics.try_emplace(state, argument).first->second;
    running =
        nn::AddOp::create(builder, op.getLoc(), running.getType(), scaled(running, 1 - momentum),
                          scaled(op.getBatch(), op.getFactor().convertToDouble() * momentum));
    op.replaceAllUsesWith(op.getBatch());
    op.erase();
  }
  return success();
}

void StepBuilder::returnStatistics(llvm::function_ref<Value(Value)> map,
                                   SmallVectorImpl<Value> &results,
                                   SmallVectorImpl<DictionaryAttr> &attrs) {
  for (auto [state, value] : statistics) {
    results.push_back(map(value));
    attrs.push_back(stateAttr(state));
  }
}
