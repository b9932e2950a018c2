//===- UpdateBuilder.h - Clipping and the optimizer -----------------------===//
#ifndef SHALE_PASSES_AUTODIFF_UPDATEBUILDER_H
#define SHALE_PASSES_AUTODIFF_UPDATEBUILDER_H

#include "dialects/nn/Optimizers.h"
#include "passes/autodiff/LossScale.h"
#include "passes/autodiff/StepFunctionBuilder.h"
#include "llvm/ADT/StringMap.h"

namespace shale {

/// Properties of the gradients that @step computes before it updates the parameters.
struct StepChecks {
  mlir::Value norm;   ///< of the gradients of the step
  mlir::Value finite; ///< whether the norm and the loss are
  mlir::Value enable; ///< whether the parameters are updated
};

/// Builds the update of the trained parameters in @step: the optimizer's state and its settings,
/// the clipping of the gradients, and one update for each parameter.
class UpdateBuilder {
public:
  UpdateBuilder(StepFunctionBuilder &builder, std::vector<Trained> &trained,
                const nn::Optimizer &optimizer)
      : builder(builder), trained(trained), optimizer(optimizer) {}

  /// Declares the optimizer's states. Fails after an error.
  mlir::LogicalResult declareMoments();
  /// Declares the settings as arguments. `runsAhead`: whether the step may start before the one
  /// before it has ended.
  void declareHypers(bool runsAhead);
  /// Builds the updates before the return. `count` is that of the labels of the step, by which
  /// gradients are divided; null: not at all.
  StepChecks build(LossScale &scale, mlir::Value count);
  /// Appends the new parameters and states to what @step returns.
  void addStates(StepResults &results);

private:
  /// The optimizer's state of a parameter, in the order of the update's operands.
  struct Slots {
    llvm::SmallVector<nn::StateOp> states;
    llvm::SmallVector<mlir::Value> values;  ///< arguments of @step
    llvm::SmallVector<mlir::Value> results; ///< new parameter, then new state
  };

  size_t mostSlots();
  void update(Trained &t, Slots &kept, mlir::Value enable, mlir::Value scale);

  StepFunctionBuilder &builder;
  std::vector<Trained> &trained;
  const nn::Optimizer &optimizer;
  std::vector<Slots> slots; ///< by trained parameter
  /// The hyper-parameters by name. There is no kPreviousEnable unless the step runs ahead.
  llvm::StringMap<mlir::Value> hypers;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_UPDATEBUILDER_H
