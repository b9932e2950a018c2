// Learning-rate schedules.
#include "runtime/program/Options.h"

#include <algorithm>
#include <cmath>

namespace shale::rt {

double learningRate(const Options &o, int64_t step) {
  if (step < o.warmup)
    return o.lr * static_cast<double>(step + 1) / o.warmup;
  double span = static_cast<double>(o.steps - o.warmup);
  double progress = span > 0 ? (step - o.warmup) / span : 1;
  progress = std::min(std::max(progress, 0.0), 1.0);
  if (o.schedule == "cosine")
    return o.minLr + 0.5 * (1 + std::cos(progress * 3.14159265358979323846)) * (o.lr - o.minLr);
  if (o.schedule == "linear")
    return o.lr + (o.minLr - o.lr) * progress;
  if (o.schedule == "wsd") {
    double decay = o.decayFraction * o.steps, start = o.steps - decay;
    if (step < start || decay <= 0)
      return o.lr;
    return o.lr + (o.minLr - o.lr) * std::min((step - start) / decay, 1.0);
  }
  return o.lr;
}

} // namespace shale::rt
