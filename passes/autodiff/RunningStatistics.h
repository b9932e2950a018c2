//===- RunningStatistics.h - New values of the buffers of a model ---------===//
#ifndef SHALE_PASSES_AUTODIFF_RUNNINGSTATISTICS_H
#define SHALE_PASSES_AUTODIFF_RUNNINGSTATISTICS_H

#include "passes/autodiff/StepFunctionBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace shale {

/// The values of the buffers of a model after a micro-batch: running statistics of batch
/// normalization, or what the model's file computes.
class RunningStatistics {
public:
  /// Takes the new value of the buffer `name`, which `forward` returns. Fails after an error.
  mlir::LogicalResult take(mlir::func::FuncOp forward, mlir::FlatSymbolRefAttr name,
                           mlir::Value value);
  /// Replaces each `nn.running_statistic` of a function by the statistic of the batch, and builds
  /// the new value of its state. Modules that are called twice update their statistics twice, in
  /// order. Fails after an error, as where the file computes the gradients.
  mlir::LogicalResult build(StepFunctionBuilder &builder, bool hasGivenGradients);
  /// Appends the new values to what a function returns. `map`: from @step's values to the
  /// function's.
  void addResults(StepFunctionBuilder &builder, llvm::function_ref<mlir::Value(mlir::Value)> map,
                  StepResults &results) const;

private:
  llvm::MapVector<nn::StateOp, mlir::Value> values; ///< in the order of the states' arguments
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_RUNNINGSTATISTICS_H
