//===- GradientAccumulation.h - Several micro-batches per step ------------===//
#ifndef SHALE_PASSES_AUTODIFF_GRADIENTACCUMULATION_H
#define SHALE_PASSES_AUTODIFF_GRADIENTACCUMULATION_H

#include "passes/autodiff/RunningStatistics.h"
#include "passes/autodiff/StepFunctionBuilder.h"

namespace shale {

/// Adds up the gradients and the loss of the micro-batches of a step, if there are several.
class GradientAccumulation {
public:
  GradientAccumulation(StepFunctionBuilder &builder, std::vector<Trained> &trained,
                       int64_t microbatches)
      : builder(builder), trained(trained), microbatches(microbatches) {}

  bool isNeeded() const { return microbatches > 1; }
  /// Finds the sum and the count whose quotient is the loss of a micro-batch: those that @step
  /// returns if the loss is a mean, else the loss and 1.
  void findMean();
  /// Return these, and those of the step once the accumulation is built; null if it is not needed.
  mlir::Value getSum() const { return sum; }
  mlir::Value getCount() const { return count; }
  /// Returns a power of two that is at least the number of labels per step.
  double boundLabels() const;
  /// Makes the functions that accumulate from @step, which ends with the gradients of a
  /// micro-batch, and adds the accumulators to the gradients and the loss in @step. Fails after an
  /// error.
  mlir::LogicalResult build(const RunningStatistics &statistics);

private:
  mlir::FailureOr<nn::StateOp> declareAccumulator(const llvm::Twine &name, mlir::Type type,
                                                  nn::StateOp of, mlir::Location loc);
  mlir::LogicalResult declareAccumulators();
  void makeAccumulate(llvm::StringRef name, bool first, const RunningStatistics &statistics);
  void addAccumulators();
  mlir::Value divisorOf(mlir::Value count, mlir::Value loss);

  StepFunctionBuilder &builder;
  std::vector<Trained> &trained;
  int64_t microbatches;
  mlir::Value sum, count;
  nn::StateOp sumState, countState;
  llvm::SmallVector<nn::StateOp> accumulators; ///< by trained parameter
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_GRADIENTACCUMULATION_H
