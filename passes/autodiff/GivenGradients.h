//===- GivenGradients.h - Gradients that the model's file computes --------===//
#ifndef SHALE_PASSES_AUTODIFF_GIVENGRADIENTS_H
#define SHALE_PASSES_AUTODIFF_GIVENGRADIENTS_H

#include "passes/autodiff/GradientAccumulation.h"
#include "passes/autodiff/LossScale.h"
#include "passes/autodiff/RunningStatistics.h"
#include "passes/autodiff/StepFunctionBuilder.h"

namespace shale {

/// The results of @forward after the loss, its sum and its count: gradients, which are used as they
/// are, and new values of buffers.
class GivenGradients {
public:
  GivenGradients(StepFunctionBuilder &builder, std::vector<Trained> &trained)
      : builder(builder), trained(trained) {}

  /// Takes the results away from @forward. Those of buffers are statistics. Fails after an error,
  /// as where a trained parameter has no gradient and others have.
  mlir::LogicalResult take(RunningStatistics &statistics);
  /// Whether the gradients are to be derived.
  bool empty() const { return gradients.empty(); }
  /// Makes them the gradients of the trained parameters: of a multiple of the loss of one
  /// micro-batch, or of its sum with several. Declares the loss scale if there is to be one.
  void use(LossScale &scale, GradientAccumulation &accumulation);

private:
  void markBackward();
  mlir::Value times(mlir::Value gradient, mlir::Value scalar);
  /// Whether the gradients are those of a multiple of the loss if the seeds are multiplied.
  /// Declares the loss scale if there is to be one, or warns that there is none.
  bool checkSeeds(LossScale &scale);
  /// Replaces the seeds by 1, the loss scale over the divisor, and `factor` if it is not null.
  void replaceSeeds(const LossScale &scale, mlir::Value factor);

  StepFunctionBuilder &builder;
  std::vector<Trained> &trained;
  llvm::DenseMap<mlir::StringAttr, mlir::Value> gradients; ///< by parameter
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_GIVENGRADIENTS_H
