// What people see of a run: a line a step, or on a terminal one line that stays,
// with a bar and the time left.
#ifndef SHALE_RUNTIME_METRICS_PROGRESS_H
#define SHALE_RUNTIME_METRICS_PROGRESS_H

#include "runtime/metrics/Metrics.h"

#include <cstdint>

namespace shale::rt {

class Progress {
public:
  /// `bar`: the output is a terminal that can rewrite a line.
  explicit Progress(bool bar, bool colour);
  /// As stdout, TERM and NO_COLOR say.
  static Progress ofStdout();

  /// After a step of `steps`; `now` in seconds of any clock. Allocates nothing.
  void step(const StepMetrics &metrics, int64_t steps, double now);
  /// Takes the bar away before something else is printed.
  void clear();
  /// Seconds until the last step ends, from those that ended lately; negative:
  /// not known yet.
  double left(int64_t remaining) const { return pace < 0 ? -1 : pace * remaining; }

private:
  void drawBar(const StepMetrics &metrics, int64_t steps);
  bool bar, colour, drawn = false;
  double lastStep = -1, lastDrawn = -1, pace = -1;
  int64_t seen = 0;
};

/// "1:02:03", "2:03", "0:07"; as people write it.
void writeDuration(double seconds, char (&text)[32]);

} // namespace shale::rt

#endif
