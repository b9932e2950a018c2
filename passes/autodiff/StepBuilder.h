//===- StepBuilder.h - Builds the functions of a training step ------------===//
//
// One file per concern: Evaluation, Statistics, LossScale, Backward, GivenGradients, Accumulation,
// Update. TrainingStep.cpp runs them in order.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_AUTODIFF_STEPBUILDER_H
#define SHALE_PASSES_AUTODIFF_STEPBUILDER_H

#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace shale {

/// A trained parameter while the step is built.
struct Trained {
  nn::StateOp state;
  mlir::Value value; // argument of @step
  mlir::Value gradient;
  nn::StateOp accumulator;                // with several micro-batches per step
  llvm::SmallVector<nn::StateOp> moments; // in the order of the update's operands
  llvm::SmallVector<mlir::Value> momentValues;
  llvm::SmallVector<mlir::Value> results; // new parameter, then new moments
};

/// While it lives, ops that the builder inserts without a phase get this one.
class PhaseScope : mlir::OpBuilder::Listener {
public:
  PhaseScope(mlir::OpBuilder &builder, nn::Phase phase)
      : builder(builder), outer(builder.getListener()),
        phase(nn::PhaseAttr::get(builder.getContext(), phase)) {
    builder.setListener(this);
  }
  ~PhaseScope() override { builder.setListener(outer); }
  PhaseScope(const PhaseScope &) = delete;
  PhaseScope &operator=(const PhaseScope &) = delete;

private:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    if (!op->hasAttr(nn::kPhaseAttr))
      op->setAttr(nn::kPhaseAttr, phase);
  }

  mlir::OpBuilder &builder;
  mlir::OpBuilder::Listener *outer;
  nn::PhaseAttr phase;
};

class StepBuilder {
public:
  StepBuilder(mlir::ModuleOp module, mlir::func::FuncOp forward, const nn::Optimizer &optimizer,
              int64_t microbatches, const Target &target)
      : module(module), function(forward), optimizer(optimizer), microbatches(microbatches),
        target(target), builder(module.getContext()) {}

  mlir::LogicalResult build();

private:
  mlir::LogicalResult checkForward();

  // Evaluation.cpp
  void makeEvaluate();

  // Statistics.cpp: running statistics of batch normalization.
  mlir::LogicalResult takeStatistics();
  /// Appends the new statistics to what a function returns. `map`: from @step's values to the
  /// function's.
  void returnStatistics(llvm::function_ref<mlir::Value(mlir::Value)> map,
                        llvm::SmallVectorImpl<mlir::Value> &results,
                        llvm::SmallVectorImpl<mlir::DictionaryAttr> &attrs);

  // LossScale.cpp: used if gradients pass through f16.
  void declareLossScale();
  void updateLossScale(mlir::Value finite);
  bool needsLossScale();

  // Backward.cpp
  mlir::LogicalResult buildBackward();
  /// Returns the gradient of the loss: the loss scale, over the divisor.
  mlir::Value seed(mlir::Value loss);

  // GivenGradients.cpp: if the file computes the gradients.
  mlir::LogicalResult readGivenGradients();
  mlir::LogicalResult takeNextValue(mlir::FlatSymbolRefAttr name, mlir::Value value);
  void dropGivenGradients();
  void takeGivenGradients();
  void markGivenBackward();
  mlir::Value times(mlir::Value gradient, mlir::Value scalar);

  // GivenGradients.cpp: where the file's gradients begin.
  /// Whether the gradients are those of a multiple of the loss if the seeds are multiplied.
  /// Declares the loss scale if there is to be one, or warns that there is none.
  bool checkSeeds();
  /// Replaces the seeds by 1, the loss scale over the divisor, and `factor` if it is not null.
  void replaceSeeds(mlir::Value factor);

  // Accumulation.cpp: with several micro-batches per step.
  void findMean();
  mlir::LogicalResult accumulate();
  mlir::FailureOr<nn::StateOp> declareAccumulator(const llvm::Twine &name, mlir::Type type,
                                                  nn::StateOp of, mlir::Location loc);
  mlir::LogicalResult declareAccumulators();
  void makeAccumulate(llvm::StringRef name, bool first);
  void addAccumulators();
  mlir::Value divisorOf(mlir::Value count, mlir::Value loss);

  // Update.cpp
  size_t mostSlots();
  mlir::LogicalResult declareMoments();
  void declareHypers();
  void buildUpdate();
  void dropStops();
  void update(Trained &trained, mlir::Value enable, mlir::Value scale);
  void finish(mlir::Value norm, mlir::Value enable);

  // StepBuilder.cpp
  mlir::RankedTensorType scalarType() {
    return mlir::RankedTensorType::get({}, builder.getF32Type());
  }
  mlir::DictionaryAttr metric(llvm::StringRef name) { return roleAndName(nn::Role::Metric, name); }
  mlir::DictionaryAttr roleAndName(nn::Role role, llvm::StringRef name);
  mlir::DictionaryAttr stateAttr(nn::StateOp state);
  mlir::Value addArgument(mlir::Type type, mlir::DictionaryAttr attrs, mlir::Location loc);
  mlir::Value constant(double value);
  /// Converts a float tensor to f32.
  mlir::Value toF32(mlir::Value value);
  /// Builds the test whether a scalar is finite.
  mlir::Value isFinite(mlir::Value scalar);
  template <typename Op> mlir::Value binary(mlir::Value a, mlir::Value b) {
    return Op::create(builder, function.getLoc(), a.getType(), a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value compare(nn::Predicate predicate, mlir::Value a, mlir::Value b);
  /// Sets what the function returns and what each result is.
  void setResults(mlir::ValueRange results, llvm::ArrayRef<mlir::DictionaryAttr> attrs);

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  const nn::Optimizer &optimizer;
  int64_t microbatches;
  const Target &target;
  mlir::OpBuilder builder;
  std::vector<Trained> trained;
  /// Gradients that the file computes, by parameter; empty if they are to be derived.
  llvm::DenseMap<mlir::StringAttr, mlir::Value> givenGradients;
  /// The hyper-parameters by name. There is no kPreviousEnable unless the step may start before the
  /// one before it has ended.
  llvm::StringMap<mlir::Value> hypers;
  /// A state of loss scaling: the factor of the loss, or the number of consecutive good steps.
  /// State, argument, new value.
  struct Scaling {
    nn::StateOp state;
    mlir::Value value, next;
  };
  Scaling scale, goodSteps;
  /// Summed gradients could overflow f16 at loss scales that suit the mean. The seed is therefore
  /// divided by this power of two, which is at least the number of labels per step, and unscaling
  /// multiplies by it again.
  double divisor = 1;
  /// The running statistics after a micro-batch, in the order of the states' arguments.
  llvm::MapVector<nn::StateOp, mlir::Value> statistics;
  // With several micro-batches per step: the sum and the count whose quotient is the loss, of one
  // micro-batch, later of the step.
  mlir::Value sum, count;
  nn::StateOp sumState, countState;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_STEPBUILDER_H
