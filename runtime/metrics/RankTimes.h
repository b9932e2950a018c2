// How long ranks take for steps without waiting for others: the slowest one sets the pace of all.
#ifndef SHALE_RUNTIME_METRICS_RANKTIMES_H
#define SHALE_RUNTIME_METRICS_RANKTIMES_H

#include "runtime/metrics/Metrics.h"

#include <functional>
#include <string>
#include <vector>

namespace shale::rt {

class RankTimes {
public:
  /// Seconds of the last step, by rank; empty where they are not known.
  std::vector<double> seconds;

  /// Counts `seconds`, and puts them into the metrics of the step. The first step is not counted:
  /// it does one-time initialization.
  void add(StepMetrics &metrics);
  /// Names the slowest rank of the counted steps, with its mean time and the median of all ranks';
  /// "" for fewer than two ranks, or without a counted step.
  std::string summary(const std::function<std::string(int)> &nameOf) const;

private:
  std::vector<double> sums;       // by rank
  std::vector<int64_t> slowestIn; // steps, by rank
  int64_t steps = 0;
  bool begun = false;
};

} // namespace shale::rt

#endif
