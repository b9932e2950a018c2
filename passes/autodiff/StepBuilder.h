//===- StepBuilder.h - Builds the functions of a training step ------------===//
//
// Evaluation.cpp and Backward.cpp have parts of the class. TrainingStep.cpp runs all parts in
// order.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_STEPBUILDER_H
#define SHALE_PASSES_AUTODIFF_STEPBUILDER_H

#include "lib/Target/Target.h"
#include "passes/autodiff/GivenGradients.h"
#include "passes/autodiff/GradientAccumulation.h"
#include "passes/autodiff/LossScale.h"
#include "passes/autodiff/RunningStatistics.h"
#include "passes/autodiff/UpdateBuilder.h"

namespace shale {

/// Turns @forward into @step, and makes @evaluate and the functions that accumulate.
class StepBuilder {
public:
  StepBuilder(mlir::func::FuncOp forward, const nn::Optimizer &optimizer, int64_t microbatches,
              const Target &target)
      : target(target), builder(forward), scale(builder),
        accumulation(builder, trained, microbatches), given(builder, trained),
        update(builder, trained, optimizer) {}

  mlir::LogicalResult build();

private:
  mlir::LogicalResult checkForward();
  void makeEvaluate();
  mlir::LogicalResult buildBackward();
  /// Returns the gradient of the loss: the loss scale, over the divisor.
  mlir::Value seed(mlir::Value loss);
  void buildUpdate();
  void dropStops();

  const Target &target;
  StepFunctionBuilder builder; ///< of @forward, which becomes @step
  std::vector<Trained> trained;
  RunningStatistics statistics;
  LossScale scale;
  GradientAccumulation accumulation;
  GivenGradients given;
  UpdateBuilder update;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_STEPBUILDER_H
