//===- TimeModel.h - Predicted time of a planned step ---------------------===//
//
// The times serve to rank plans; they are not exact. The time of an op is the
// larger of its operations at the machine's compute rate and its bytes at the
// memory bandwidth. Collectives and copies overlap with compute from their start
// to their wait.
//
// Collectives of one stream run one after another. There is one stream, or, where the
// target has them, one for the gathers and one for the reductions of each axis. Streams
// whose collectives are under way at once share the rate of the link: those within a
// node, and those between nodes.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_TIMEMODEL_H
#define SHALE_ANALYSIS_TIMEMODEL_H

#include "dialects/rt/RT.h"
#include "lib/Target/Machines.h"
#include <vector>

namespace shale {

/// An op on one of a rank's streams, with its begin and end in seconds from the
/// start of the function. A collective begins with its latency.
struct TimedOp {
  mlir::Operation *op;
  enum Stream { Compute, Communication, Copy } stream;
  double begin, end;
  /// Seconds of these in which the compute stream waits for the op, or for one of the same stream
  /// that is behind it: what the op adds to the step.
  double exposed = 0;
};

struct TimedStep {
  double seconds = 0;
  double computeSeconds = 0, communicationSeconds = 0, copySeconds = 0;
  /// Seconds in which the compute stream waits.
  double waitSeconds = 0;
  std::vector<TimedOp> ops;
};

/// Returns what the ranks along an axis of the module's mesh communicate over.
AxisLink linkOfAxis(mlir::ModuleOp module, llvm::StringRef axis, const Rates &rates);

/// Simulates one function on its streams.
TimedStep timeFunction(rt::FuncOp function, const Rates &rates);

/// Returns the predicted seconds of a training step: of all functions, times their
/// calls per step.
double predictSeconds(mlir::ModuleOp module, const Rates &rates);

} // namespace shale

#endif // SHALE_ANALYSIS_TIMEMODEL_H
