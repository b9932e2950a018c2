// Sums over steps.
#include "runtime/metrics/RankTimes.h"
#include "runtime/core/Error.h"

#include <algorithm>

namespace shale::rt {

static size_t largest(const std::vector<double> &values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

void RankTimes::add(StepMetrics &metrics) {
  if (seconds.size() < 2)
    return;
  metrics.rankSeconds = &seconds;
  metrics.slowestRank = static_cast<int>(largest(seconds));
  if (!begun) {
    begun = true;
    sums.resize(seconds.size());
    slowestIn.resize(seconds.size());
    return;
  }
  for (size_t rank = 0; rank < seconds.size(); ++rank)
    sums[rank] += seconds[rank];
  ++slowestIn[metrics.slowestRank];
  ++steps;
}

std::string RankTimes::summary(const std::function<std::string(int)> &nameOf) const {
  if (steps == 0)
    return "";
  std::vector<double> ordered = sums;
  std::sort(ordered.begin(), ordered.end());
  size_t slowest = largest(sums), count = ordered.size();
  double median = (ordered[(count - 1) / 2] + ordered[count / 2]) / 2;
  return format("%s: %.1f ms per step without waiting for others, %.1f ms in the median of the "
                "ranks; the slowest in %lld of %lld steps",
                nameOf(static_cast<int>(slowest)).c_str(), sums[slowest] / steps * 1e3,
                median / steps * 1e3, (long long)slowestIn[slowest], (long long)steps);
}

} // namespace shale::rt
