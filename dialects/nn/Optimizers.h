//===- Optimizers.h - Descriptions of optimizers --------------------------===//
//
// Everything that shalec and the emitted program need to offer an optimizer comes from its
// description: --optimizer's values, the state and the hyper-parameters of a step, and the
// program's flags with their defaults. The update itself is an op that implements
// OptimizerUpdateOpInterface and is named `nn.` and the optimizer's name.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_OPTIMIZERS_H
#define SHALE_NN_OPTIMIZERS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace shale::nn {

class StateOp;

/// The source of a hyper-parameter's value in a step.
enum class HyperSource {
  Flag,           ///< a flag of the program, with a default
  LearningRate,   ///< the schedule
  BiasCorrection, ///< 1 - base^t, where base is another hyper-parameter; 1 if t is 0
  StepPower,      ///< t^exponent, where the exponent is another hyper-parameter or the value
  PreviousEnable, ///< the metric `enable` of the step before; 1 in the first step
  InverseDecay,   ///< 1 / (1 + t * base)
  AfterFirst,     ///< base if t is above 0, else 1
  OwnRate,  ///< the schedule with the base in the place of --lr; the learning rate if base is 0
  NormLimit ///< the largest gradient norm of a step that updates; infinity: no limit
};

/// The count t of updates that hyper-parameters are computed from: `first` in the first update, and
/// `step` more after each applied one.
struct UpdateCounter {
  int64_t first = 1, step = 1;
};

/// A scalar operand of an update.
struct HyperParameter {
  /// Name of the argument of @step. The flag's name is the same with '-' for '_'.
  llvm::StringLiteral name;
  HyperSource source = HyperSource::Flag;
  /// Flag: the default; StepPower: the exponent, if `text` is empty.
  double value = 0;
  /// Flag: the largest value, and whether it is excluded.
  double high = 0;
  bool highExcluded = false;
  /// Flag: its line in --help; BiasCorrection, StepPower: the name of the base or exponent.
  llvm::StringLiteral text = "";
  /// Flag: the smallest value.
  double low = 0;

  std::string flag() const;
  /// Returns the count of updates if the model file defines none.
  UpdateCounter counter() const {
    bool fromZero = source == HyperSource::InverseDecay || source == HyperSource::AfterFirst;
    return {fromZero ? 0 : 1, 1};
  }
  /// Returns the value when the count of updates is t. `base` is the value of the hyper-parameter
  /// that `text` names. Not for learning rates, which the schedule determines.
  double derived(double base, double t) const;
};

/// The values of hyper-parameters and the count of updates that come from the model's file
/// (attributes `nn.hypers`, `nn.hyper_defaults` and `nn.counter` of the module).
struct FileSettings {
  explicit FileSettings(mlir::Operation *module);

  /// Returns the value that the file fixes.
  std::optional<double> fixed(llvm::StringRef name) const;
  /// Returns the default value: that of the file, if it has one.
  double value(const HyperParameter &hyper) const;
  UpdateCounter counter(const HyperParameter &hyper) const;

private:
  mlir::DictionaryAttr hypers, defaults;
  mlir::DenseI64ArrayAttr count;
};

struct Optimizer;

/// The optimizer of the parameters that an optimizer of matrices does not update: vectors, tables
/// that are read by index, and the matrix of the last matmul before the logits. --optimizer-for
/// changes the choice.
struct RestOptimizer {
  const Optimizer &(*optimizer)();
  /// The scalars of its updates in the order of their operands, then others from which these are
  /// computed. A name that the optimizer of the matrices has, too, is one scalar for both.
  llvm::ArrayRef<HyperParameter> hypers;
};

struct Optimizer {
  /// Value of --optimizer.
  llvm::StringLiteral name;
  /// State per parameter, in the order of the update's operands. The names are part of checkpoints.
  llvm::ArrayRef<llvm::StringLiteral> slots;
  /// In the order of the update's operands.
  llvm::ArrayRef<HyperParameter> hypers;
  /// Returns the shape of a parameter's state, if it is not that of the parameter.
  llvm::SmallVector<int64_t> (*stateShape)(llvm::ArrayRef<int64_t> param) = nullptr;
  /// Elements of a parameter that one block of its state, of the shape above, belongs to. Flat
  /// groups are cut at multiples of it, and the state as they are. 0: the state is whole on every
  /// rank.
  int64_t stateBlock = 0;
  /// Whether the state consists of i32 instead of the parameter's elements.
  bool integerState = false;
  /// Not null: the optimizer updates matrices only, and this one updates the rest.
  const RestOptimizer *rest = nullptr;

  /// Returns the hyper-parameter of that name, one that every step has included, or null.
  const HyperParameter *find(llvm::StringRef name) const;
  /// Name of the update op.
  std::string opName() const { return "nn." + name.str(); }
};

/// Hyper-parameter of every step: gradients are scaled down to this norm; 0: off.
inline constexpr HyperParameter kClipGradNorm{
    "clip_grad_norm", HyperSource::Flag, 0, 1e30, false, "largest norm; 0: off"};

/// Hyper-parameter of every step: a step whose gradient norm is larger changes nothing.
inline constexpr HyperParameter kNormLimit{"norm_limit", HyperSource::NormLimit};

/// Hyper-parameter of steps that start before the process knows how the one before them ended
/// (Target::runsAhead): 0 makes a step change nothing.
inline constexpr HyperParameter kPreviousEnable{"previous_enable", HyperSource::PreviousEnable};

/// Prints the name: the text of the option of passes.
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const Optimizer *optimizer) {
  return os << optimizer->name;
}

/// Returns the optimizers of all update ops of Ops/Optimizer.td, the default first, the rest by
/// name.
llvm::ArrayRef<const Optimizer *> getOptimizers();

/// Returns the optimizer of that name, or null.
const Optimizer *findOptimizer(llvm::StringRef name);

/// Returns the optimizer that `nn.optimizer` of a module names, or null.
const Optimizer *getOptimizer(mlir::Operation *module);

/// Returns the optimizer of a parameter of the module: the one that its `nn.optimizer` names, else
/// `main`.
const Optimizer &getOptimizer(StateOp param, const Optimizer &main);

/// Returns the optimizer of a parameter of the module, or null if the module names none.
const Optimizer *getOptimizerOf(StateOp param);

/// Returns the scalars of the updates by `own`, which is `main` or updates the rest, as the step
/// has them, in the order of the update's operands.
llvm::ArrayRef<HyperParameter> getOperandHypers(const Optimizer &main, const Optimizer &own);

/// Returns the names of all optimizers, with `separator` between them.
std::string listOptimizers(llvm::StringRef separator);

/// Returns the hyper-parameters of @step in their order: the optimizer's, those of what updates the
/// rest, those that every step has, and kPreviousEnable, which some steps have.
std::vector<const HyperParameter *> getHyperParameters(const Optimizer &optimizer);

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_H
