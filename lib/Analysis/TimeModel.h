//===- TimeModel.h - How long a planned step would take -------------------===//
//
// For ordering plans, not for promises: an op takes the longer of its operations
// at the machine's rate and its bytes at the memory's; collectives and copies
// run beside it from their start to their wait.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_TIMEMODEL_H
#define SHALE_ANALYSIS_TIMEMODEL_H

#include "dialects/rt/RT.h"
#include "lib/Target/Machines.h"
#include <vector>

namespace shale {

/// What happens when on one of a rank's streams, in seconds from the step's start.
struct TimedOp {
  mlir::Operation *op;
  enum Stream { Compute, Communication, Copy } stream;
  double begin, end;
};

struct TimedStep {
  double seconds = 0;
  double computeSeconds = 0, communicationSeconds = 0, copySeconds = 0;
  /// Seconds in which compute stood and waited.
  double waitSeconds = 0;
  std::vector<TimedOp> ops;
};

/// Simulates one function on its streams.
TimedStep timeFunction(rt::FuncOp function, const Rates &rates);

/// Seconds of a training step: @step, or the functions that make it up.
double predictSeconds(mlir::ModuleOp module, const Rates &rates);

} // namespace shale

#endif // SHALE_ANALYSIS_TIMEMODEL_H
