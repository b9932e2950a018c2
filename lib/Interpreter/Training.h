//===- Training.h - Runs training steps in the interpreter ----------------===//
#ifndef SHALE_INTERPRETER_TRAINING_H
#define SHALE_INTERPRETER_TRAINING_H

#include "lib/Interpreter/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace shale::interp {

struct TrainingOptions {
  Options interpreter;
  int64_t ranks = 0;
  int64_t steps = 1;
  double lr = 1e-3;
  /// Hyper-parameters by name; those that are missing have the optimizer's default.
  llvm::StringMap<double> hypers;
  uint64_t seed = 0;
  /// Input tensors by name, with a leading dimension of steps times
  /// micro-batches. Inputs that are missing here are random, with new values in
  /// each step.
  NamedTensors batches;
  /// Base folder of relative #nn.file paths.
  std::string folder;
};

/// Runs `steps` training steps from the initial state, feeding the new state
/// back. Writes one JSON object per step: step, loss, grad_norm, enable. Sets
/// `state` to the state after the last step.
mlir::LogicalResult train(mlir::ModuleOp module, const TrainingOptions &options,
                          llvm::raw_ostream &log, NamedTensors &state);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_TRAINING_H
