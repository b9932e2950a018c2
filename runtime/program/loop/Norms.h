// --skip-spikes: the running mean of the gradient norm, and the norm above which a step changes
// nothing. All ranks have the same norm, so they decide alike; the mean is part of checkpoints, so
// a resumed run decides like one at once.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_NORMS_H
#define SHALE_RUNTIME_PROGRAM_LOOP_NORMS_H

#include "runtime/checkpoint/Checkpoint.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shale::rt {

/// Returns the largest norm of a step that updates: `factor` times the mean, infinity before there
/// are enough norms, and if `factor` is 0.
inline float normLimit(const NormHistory &norms, double factor) {
  constexpr int64_t enough = 20;
  if (factor <= 0 || norms.count < enough)
    return std::numeric_limits<float>::infinity();
  return static_cast<float>(factor * norms.mean);
}

/// Adds the finite norm of a step. The mean is that of all norms, later about that of the last 50.
/// A norm above the limit counts as the limit: if the level stays higher, the mean follows it.
inline void addNorm(NormHistory &norms, float norm, float limit) {
  constexpr int64_t span = 50;
  norms.skipped += norm > limit;
  ++norms.count;
  norms.mean +=
      (std::min(norm, limit) - norms.mean) / static_cast<double>(std::min(norms.count, span));
}

} // namespace shale::rt

#endif
