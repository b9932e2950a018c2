// What a step has done.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_STEPOUTCOME_H
#define SHALE_RUNTIME_PROGRAM_LOOP_STEPOUTCOME_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/program/loop/RunSetup.h"
#include "runtime/program/loop/StepQueue.h"

namespace shale::rt {

struct StepOutcome {
  StepMetrics metrics; // without an evaluation and the times of ranks
  bool enabled = true; // whether the step itself has counted its update
  bool isSound = true; // whether the update was applied, or left out as a spike
  bool goesOn = true;  // false: an update was not applied, and the run ends
};

/// Judges a finished step by its metrics. Adds its norm to `norms` with --skip-spikes.
StepOutcome outcomeOf(const RunSetup &setup, const FinishedStep &step, NormHistory &norms);

} // namespace shale::rt

#endif
