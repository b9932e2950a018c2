// Progress output of a run: one line per step, or on a terminal a single line with a
// progress bar and the time left.
#ifndef SHALE_RUNTIME_METRICS_PROGRESS_H
#define SHALE_RUNTIME_METRICS_PROGRESS_H

#include "runtime/metrics/Metrics.h"

#include <cstdint>

namespace shale::rt {

class Progress {
public:
  /// `bar`: the output is a terminal that can rewrite a line.
  explicit Progress(bool bar, bool color);
  /// Chooses bar and color from stdout, TERM and NO_COLOR.
  static Progress ofStdout();

  /// Reports a finished step out of `steps`; `now` is in seconds of any clock. Allocates nothing.
  void step(const StepMetrics &metrics, int64_t steps, double now);
  /// Reports work before the first step, on a terminal only: "timing matmuls: 12 of 75".
  void work(const char *what, int64_t done, int64_t all);
  /// Erases the bar before something else is printed.
  void clear();
  /// Seconds until the last step ends, estimated from recent steps; negative:
  /// not known yet.
  double left(int64_t remaining) const { return pace < 0 ? -1 : pace * remaining; }

private:
  void drawBar(const StepMetrics &metrics, int64_t steps);
  bool bar, color, drawn = false;
  double lastStep = -1, lastDrawn = -1, pace = -1;
  int64_t seen = 0;
};

/// Formats seconds as "1:02:03", "2:03" or "0:07".
void writeDuration(double seconds, char (&text)[32]);

} // namespace shale::rt

#endif
