//===- TimeModel.h - Predicted time of a planned step ---------------------===//
//
// The times serve to rank plans; they are not exact. The time of an op is the
// larger of its operations at the machine's compute rate and its bytes at the
// memory bandwidth. Collectives and copies overlap with compute from their start
// to their wait.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_TIMEMODEL_H
#define SHALE_ANALYSIS_TIMEMODEL_H

#include "dialects/rt/RT.h"
#include "lib/Target/Machines.h"
#include <vector>

namespace shale {

/// An op on one of a rank's streams, with its begin and end in seconds from the
/// start of the function.
struct TimedOp {
  mlir::Operation *op;
  enum Stream { Compute, Communication, Copy } stream;
  double begin, end;
};

struct TimedStep {
  double seconds = 0;
  double computeSeconds = 0, communicationSeconds = 0, copySeconds = 0;
  /// Seconds in which the compute stream waits.
  double waitSeconds = 0;
  std::vector<TimedOp> ops;
};

/// Simulates one function on its streams.
TimedStep timeFunction(rt::FuncOp function, const Rates &rates);

/// Returns the predicted seconds of a training step: of all functions, times their
/// calls per step.
double predictSeconds(mlir::ModuleOp module, const Rates &rates);

} // namespace shale

#endif // SHALE_ANALYSIS_TIMEMODEL_H
