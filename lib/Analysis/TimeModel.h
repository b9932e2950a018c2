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
#include "llvm/ADT/StringRef.h"
#include <vector>

namespace shale {

/// What one rank's machine does in a second.
struct Rates {
  const char *name;
  double flops;     ///< f32 operations of matrix products
  double halfFlops; ///< bf16 and f16 operations of matrix products
  double memory;    ///< bytes read or written by kernels
  double link;      ///< bytes that a rank sends to others
  double host;      ///< bytes copied between device and host
  double hostMemory; ///< bytes of host memory read or written by what runs there, a rank's share
  double launch;    ///< seconds before a kernel or product begins
  double collective; ///< seconds before a collective's first byte
  bool oneMemory;     ///< what the host keeps lies in the device's own memory, one RAM
  const char *source; ///< where the figures come from
};

/// Every machine that plans know, cpu first.
llvm::ArrayRef<Rates> knownRates();
/// By name; null if there is none.
const Rates *ratesNamed(llvm::StringRef name);

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
