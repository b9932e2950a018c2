// --prometheus: the state of a run in the text format of Prometheus, for the textfile collector of
// its node exporter.
#ifndef SHALE_RUNTIME_METRICS_PROMETHEUS_H
#define SHALE_RUNTIME_METRICS_PROMETHEUS_H

#include "runtime/metrics/Metrics.h"

#include <string>

namespace shale::rt {

class Prometheus {
public:
  /// `run` is the label of all samples, `steps` the number of steps of the whole run. Fails with
  /// exit code 74 if the file cannot be written.
  Prometheus(const std::string &path, const std::string &run, int64_t steps);

  /// Replaces the file, at most once a second. `now` is in seconds of any clock. A file that cannot
  /// be written does not end the run: there is a warning. Allocates nothing after the first call.
  void record(const StepMetrics &metrics, double now);
  /// Replaces the file by the last state, marked as that of a run that is over.
  void finish();

private:
  void sample(const char *name, const char *type, const char *help, double value);
  void samplesOfRanks();
  void write(bool running);
  void replace();

  std::string path, partial, label;
  int64_t steps;
  std::string text; // keeps its memory
  StepMetrics last;
  std::vector<double> seconds; // of ranks, in the last step
  bool any = false, evaluated = false, warned = false;
  double evalLoss = 0, lastWrite = 0, lastStep = 0; // lastStep: seconds of the real-time clock
  int64_t skipped = 0;
};

} // namespace shale::rt

#endif
