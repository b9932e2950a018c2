// The loop over steps, and its ends.
//
// The loop finishes all steps in the queue before it looks at the state or observes a step, so that
// files and printed lines are those of a process that waits for each step.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_TRAININGLOOP_H
#define SHALE_RUNTIME_PROGRAM_LOOP_TRAININGLOOP_H

#include "runtime/metrics/RankTimes.h"
#include "runtime/program/loop/CheckpointSaver.h"
#include "runtime/program/loop/LossEvaluator.h"
#include "runtime/program/loop/RunData.h"
#include "runtime/program/loop/StepQueue.h"
#include "runtime/program/reports/Replicas.h"

#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

/// Trains from a position to the end of the run, with evaluations, checkpoints and checks of
/// replicas where they are due. Every rank calls it.
class TrainingLoop {
public:
  TrainingLoop(const RunSetup &setup, LoadedProgram &loaded, RunData &data, RunLogs &logs,
               CheckpointSaver &saver, const Position &position);

  /// Runs all steps. Returns the exit code if the run ends before the last one.
  std::optional<int> train();
  /// Checks replicas, then saves. Returns the exit code if they differ: nothing is saved then.
  std::optional<int> checkAndSave(bool last);
  /// With --save-on-failure, saves the state after an error on a single rank, unless steps are in
  /// flight.
  void saveAfterError();

  /// Writes report.html at the end of a run, on rank 0.
  void report(const char *end);
  /// Prints what --async-save and --skip-spikes have done, on rank 0.
  void tellSaves() const;
  /// As RankTimes::summary(), on rank 0.
  std::string slowestRank() const;
  /// Whether all steps of the run are done, and each of them was left out.
  bool isUnchanged() const;
  /// Ends such a run. Returns the exit code.
  int endUnchanged();
  /// Null without --report-buffers.
  const Watch *buffers() const { return queue.buffers(); }

private:
  /// Enqueues the next step and finishes the steps before it. Also finishes the step itself if the
  /// process must not run ahead. Returns false if an update was not applied.
  bool step();
  /// Finishes steps until at most `most` are in flight. Returns false if an update was not applied.
  bool settle(int64_t most);
  /// Waits for the step that was enqueued first and reports it.
  bool finishStep();
  /// Ends a step with the other ranks: sets `requested`, and on rank 0 the times of all ranks.
  void endWithPeers(StepMetrics &metrics);
  /// Whether something follows the step that needs its state: an evaluation, a checkpoint, the end.
  bool isLookedAt(int64_t step) const;

  /// Ends the run with a code that a signal asks for, unless replicas differ. Returns the exit
  /// code.
  int stopRequested(int code);
  /// Ends the run after an update that was not applied.
  int stopNonFinite();
  /// Runs the failed step again. Returns the call that made the first non-finite value, on rank 0;
  /// "" if it is not known.
  std::string diagnose();
  /// Returns the exit code if ranks hold different bits of what must be equal.
  std::optional<int> checkReplicas();
  Position positionAt(int64_t step, int64_t row) const;

  const RunSetup &setup;
  const ShaleProgram &program;
  const Options &options;
  LoadedProgram &loaded;
  RunData &data;
  RunLogs &logs;
  CheckpointSaver &saver;
  std::optional<LossEvaluator> evaluator;
  std::optional<Replicas> replicas; // with --check-replicas
  Position position;                // of the step to finish next; without what positionAt() adds
  StepQueue queue;
  FinishedStep finished;          // the step that was finished last
  std::vector<float> lastMetrics; // of that step
  RankTimes rankTimes;            // on rank 0
  int requested = 0;              // the exit code that a signal to any rank asks for, or 0
  int64_t checkedStep = -1;       // before which replicas were compared last
};

} // namespace shale::rt

#endif
