// What a run writes about its steps.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_RUNLOGS_H
#define SHALE_RUNTIME_PROGRAM_LOOP_RUNLOGS_H

#include "runtime/metrics/Metrics.h"
#include "runtime/metrics/Progress.h"
#include "runtime/metrics/Prometheus.h"
#include "runtime/metrics/Report.h"
#include "runtime/metrics/TensorBoard.h"
#include "runtime/program/launch/OutputFolder.h"
#include "runtime/program/loop/RunSetup.h"

#include <optional>

namespace shale::rt {

/// Owns the output folder and the files about steps in it, and prints the steps. Only rank 0 has
/// files; on other ranks nothing is written or printed.
class RunLogs {
public:
  /// Makes the output folder, unless the run only evaluates. Every rank may construct it before it
  /// is connected.
  explicit RunLogs(const RunSetup &setup);

  /// Opens metrics.jsonl and, with --tensorboard, the event file. `step` is the next one.
  void open(int64_t step);
  /// Records and prints a step. `labelled`: whether this rank's rows have a label that counts.
  void record(const StepMetrics &metrics, bool labelled);
  /// Whether a step without labels was reported: later ones are not.
  bool toldUnlabelled() const { return unlabelled; }
  /// Makes the metrics durable, before a checkpoint that has them beside it. Returns whether the
  /// output folder was removed and made again since the last call.
  bool sync();
  /// Closes the metrics, and writes report.html on rank 0.
  void report(const ReportFacts &facts);
  /// Marks the run as over for Prometheus.
  void finishPrometheus();
  /// Gives up the lock of the output folder.
  void releaseFolder() { folder.reset(); }
  Progress &progress() { return bar; }

private:
  /// Makes the output folder again if it was removed or renamed during the run.
  void keepFolder();
  void print(const StepMetrics &metrics, bool isUnlabelled);

  const RunSetup &setup;
  const Options &options;
  std::optional<OutputFolder> folder;
  bool lostFolder = false; // since the last sync()
  std::optional<Metrics> log;
  std::optional<TensorBoard> board;
  std::optional<Prometheus> prometheus;
  Progress bar = Progress::ofStdout();
  int64_t next = 0; // step
  bool unlabelled = false;
};

} // namespace shale::rt

#endif
