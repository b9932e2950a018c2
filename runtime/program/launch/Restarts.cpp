// How often --max-restarts starts the ranks again, and after which pause.
#include "runtime/program/launch/Restarts.h"

#include <algorithm>

namespace shale::rt {

std::optional<int> Restarts::next(int64_t now) {
  if (now > newest)
    inARow = 0;
  newest = now;
  if (inARow >= most)
    return std::nullopt;
  constexpr int mostDoubled = 6; // 2^6 is above kLongest
  int before = inARow++;
  return before == 0 ? 0 : std::min(kLongest, 1 << std::min(before - 1, mostDoubled));
}

} // namespace shale::rt
