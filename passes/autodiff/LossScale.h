//===- LossScale.h - Scaling of gradients that pass through f16 -----------===//
#ifndef SHALE_PASSES_AUTODIFF_LOSSSCALE_H
#define SHALE_PASSES_AUTODIFF_LOSSSCALE_H

#include "passes/autodiff/StepFunctionBuilder.h"

namespace shale {

/// The factor of the loss of @step, which is state, if gradients pass through f16.
class LossScale {
public:
  explicit LossScale(StepFunctionBuilder &builder) : builder(builder) {}

  /// Whether gradients pass through f16.
  bool isNeeded();
  /// Declares the states of the scale if it is needed.
  void declare();
  /// Whether the scale is declared.
  bool isUsed() const { return bool(scale.value); }
  /// Returns the factor, null if it is not used.
  mlir::Value getValue() const { return scale.value; }
  /// Returns by what the seed is divided.
  double getDivisor() const { return divisor; }

  /// Divides the seed by a power of two that is at least the number of labels per step. Summed
  /// gradients could overflow f16 at loss scales that suit the mean. Unscaling multiplies by the
  /// divisor again.
  void divideBy(double labels) { divisor = labels; }
  /// Builds the factor of gradients that undoes the scale, which is used, and the divisor.
  mlir::Value buildInverse();
  /// Builds the scale of the next step. `finite`: whether loss and gradients of this one are.
  void update(mlir::Value finite);
  /// Appends the scale of the next step, which is built, to what @step returns.
  void addStates(StepResults &results);

private:
  /// The factor of the loss, or the number of consecutive good steps.
  struct Scaling {
    nn::StateOp state;
    mlir::Value value, next; ///< argument, new value
  };

  StepFunctionBuilder &builder;
  Scaling scale, goodSteps;
  double divisor = 1;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_LOSSSCALE_H
