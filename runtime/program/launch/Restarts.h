// How often --max-restarts starts the ranks again, and after which pause. Decided here without
// clocks and files.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_RESTARTS_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_RESTARTS_H

#include <cstdint>
#include <optional>

namespace shale::rt {

class Restarts {
public:
  /// At most `most` in a row without progress. `newest`: the step of the newest checkpoint; -1 if
  /// there is none.
  Restarts(int most, int64_t newest) : most(most), newest(newest) {}

  /// The ranks have failed, and `now` is the step of the newest checkpoint. Returns the seconds to
  /// wait before they start again: 0, then 1, 2, 4, .. up to kLongest. Nothing if they do not. A
  /// checkpoint that is newer than at the start before is progress: the count begins again.
  std::optional<int> next(int64_t now);
  /// The number of the restart that next() has allowed, since the last progress.
  int count() const { return inARow; }

  static constexpr int kLongest = 60;

private:
  int most, inARow = 0;
  int64_t newest;
};

} // namespace shale::rt

#endif
