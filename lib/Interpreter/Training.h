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
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.01;
  double momentum = 0.9, clipGradNorm = 0;
  uint64_t seed = 0;
  /// Tensors of the inputs' names with a leading dimension of steps; inputs
  /// that are not there are random, new ones each step.
  NamedTensors batches;
  /// Where #nn.file paths that are relative begin.
  std::string folder;
};

/// Runs @step on the initial state again and again, feeding new state back.
/// Writes one JSON object a step: step, loss, grad_norm, enable. `state` gets
/// the state after the last step.
mlir::LogicalResult train(mlir::ModuleOp module,
                          const TrainingOptions &options,
                          llvm::raw_ostream &log, NamedTensors &state);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_TRAINING_H
