// Metrics that rank 0 reports: a progress line and an object in metrics.jsonl per step.
#ifndef SHALE_RUNTIME_METRICS_METRICS_H
#define SHALE_RUNTIME_METRICS_METRICS_H

#include "runtime/metrics/LogFile.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

struct StepMetrics {
  int64_t step = 0;
  float loss = 0, gradNorm = 0;
  double lr = 0, seconds = 0;
  int64_t tokens = 0, memoryBytes = 0, commBytes = 0;
  int64_t samples = 0; // of a model without tokens, whose speed is in samples; else 0
  bool scaled = false,
       skipped = false; // scaled: the loss is scaled; skipped: the update was skipped
  bool limited = false; // the norm has a limit (--skip-spikes)
  float normLimit = INFINITY;
  float lossScale = 1;
  bool evaluated = false;
  double evalLoss = 0;
  /// Per rank: the model's floating-point operations per second, in 1e12, and their
  /// fraction of the machine's peak, if that is known, else 0.
  double tflops = 0, mfu = 0;
  /// By rank: seconds of the step in which it did not wait for collectives; null: not known.
  const std::vector<double> *rankSeconds = nullptr;
  int slowestRank = -1; // the one with the most of these
  /// All metrics of the program. Those named GROUP/MODULE/FIELD are written as objects; the fields
  /// of a module follow one another. The others are in the fields above.
  const char *const *names = nullptr;
  const float *values = nullptr;
  int valueCount = 0;
};

/// "2384 tokens/s" or "12.5 samples/s". Allocates nothing.
struct Speed {
  char text[48];
  explicit Speed(const StepMetrics &metrics);
};

class Metrics {
public:
  /// Continues the file at `firstStep`: drops the lines of that step and later
  /// ones, which a run wrote after its last checkpoint.
  Metrics(const std::string &path, int64_t firstStep);

  /// Appends a line. Allocates nothing after the first one, unless the file cannot be written.
  void record(const StepMetrics &metrics);
  void sync() { file->sync(); }
  void finish() { file->finish(); }

private:
  std::optional<LogFile> file;
  std::string line; // of the last record, to keep its memory
};

/// Prints the progress line, without a newline.
void printProgress(const StepMetrics &metrics, int64_t steps);

} // namespace shale::rt

#endif
