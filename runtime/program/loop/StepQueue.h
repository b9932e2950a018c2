// Steps whose metrics were not read.
//
// If the device works on its own and the program allows it, the process enqueues a step before it
// reads the metrics of the step before. A step that starts while the one before it is in flight
// gets that step's metric `enable` as a setting, by a copy on the device: after an update that was
// not applied, the steps in flight apply none.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_STEPQUEUE_H
#define SHALE_RUNTIME_PROGRAM_LOOP_STEPQUEUE_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/Batches.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/RunSetup.h"
#include "runtime/program/reports/Watch.h"

#include <optional>

namespace shale::rt {

/// A step that is enqueued.
struct QueuedStep {
  int64_t step = 0;
  double start = 0; // when the process began to fill its inputs, in seconds
  int64_t commBytes = 0;
  double waited = 0;    // for collectives, in seconds
  int64_t firstRow = 0; // the position of its first row in a token file's order
  bool labelled = true; // whether this rank's rows have a label that counts
};

struct FinishedStep : QueuedStep {
  double seconds = 0;
  const float *metrics = nullptr; // stay until the second step after this one is enqueued
};

/// Enqueues the calls of steps, at most two of them, and waits for the steps in the same order.
class StepQueue {
public:
  /// `firstRow` is the position of the first step's first row. With --report-buffers the queue
  /// watches the first two steps.
  StepQueue(const RunSetup &setup, LoadedProgram &loaded, Batches &data, int64_t firstRow);

  /// Number of steps in the queue.
  int64_t size() const { return inFlight; }
  /// Whether a step may be enqueued before the one before it is finished.
  bool runsAhead() const { return ahead; }
  /// Whether the process waits for collectives, so that the wait is known.
  bool waitsForPeers() const { return hostTakesPart; }
  /// Whether the process observes the calls of a step one by one. Such a step is alone in the
  /// queue.
  bool isObserved(int64_t step) const;

  /// Enqueues the next step. `position` is that of the step to finish next. `seeksLabels`: whether
  /// QueuedStep::labelled is needed; else it is true.
  void enqueue(const Position &position, bool seeksLabels);
  /// Waits for the first step and removes it. Writes the trace after its last step.
  FinishedStep finish();
  /// Waits for all steps and removes them.
  void drop();
  /// Enqueues the calls of a step once more. The queue is empty, and the metrics are read from the
  /// loaded program.
  void repeat(QueuedStep step, const Position &position, Observer &observer);

  /// Null without --report-buffers.
  const Watch *buffers() const { return watch ? &*watch : nullptr; }

private:
  void callStep(QueuedStep &step, const Position &position, Observer *observer);
  void setHyper(int64_t step, const Position &position, float *hyper) const;

  const RunSetup &setup;
  const ShaleProgram &program;
  const Options &options;
  LoadedProgram &loaded;
  ShaleRank &self;
  Batches &data;
  std::optional<Watch> watch;
  bool hostTakesPart = false; // in collectives
  bool ahead = false;
  QueuedStep steps[2];
  int64_t inFlight = 0;
  int64_t nextRow;    // the position of the step to enqueue next
  double lastEnd = 0; // when the last step ended, in seconds
};

} // namespace shale::rt

#endif
