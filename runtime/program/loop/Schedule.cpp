// Learning-rate schedules.
#include "runtime/program/flags/Options.h"

#include <algorithm>
#include <cmath>

namespace shale::rt {

double decayStart(const Options &o) { return o.steps - o.decayFraction * o.steps; }

static double scheduled(const Options &o, int64_t step, double lr, double minLr) {
  if (step < o.warmup)
    return lr * static_cast<double>(step + 1) / o.warmup;
  double span = static_cast<double>(o.steps - o.warmup);
  double progress = span > 0 ? (step - o.warmup) / span : 1;
  progress = std::min(std::max(progress, 0.0), 1.0);
  if (o.schedule == "cosine")
    return minLr + 0.5 * (1 + std::cos(progress * 3.14159265358979323846)) * (lr - minLr);
  if (o.schedule == "linear")
    return lr + (minLr - lr) * progress;
  if (o.schedule == "wsd") {
    double decay = o.decayFraction * o.steps, start = decayStart(o);
    if (step < start || decay <= 0)
      return lr;
    return lr + (minLr - lr) * std::min((step - start) / decay, 1.0);
  }
  return lr;
}

double learningRate(const Options &o, int64_t step) { return scheduled(o, step, o.lr, o.minLr); }

double ownRate(const Options &o, int64_t step, double base) {
  if (base == 0)
    return learningRate(o, step);
  return scheduled(o, step, base, o.lr > 0 ? o.minLr * (base / o.lr) : 0);
}

} // namespace shale::rt
