// The waits of this rank for others, and the failure that ends them.
#ifndef SHALE_RUNTIME_COMM_MESH_OPENWAITS_H
#define SHALE_RUNTIME_COMM_MESH_OPENWAITS_H

#include "runtime/comm/mesh/Messages.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace shale::rt {

/// The waits that are in progress. All of them end when the run fails, and report the same reason.
class OpenWaits {
public:
  using Clock = std::chrono::steady_clock;

  /// A wait is in progress as long as this object lives.
  class Wait {
  public:
    Wait(OpenWaits &all, Awaited &transfers);
    ~Wait();
    Wait(const Wait &) = delete;

    Awaited &transfers;
    const Clock::time_point since;
    const std::string *const work; // see StorageWait; null: --comm-timeout ends the wait

  private:
    OpenWaits &all;
  };

  /// Returns kWaits and kPatient, if waits of these kinds have lasted for some time.
  uint64_t kinds(std::chrono::milliseconds lasted);

  /// Returns true once, for the thread that tells the other ranks of a failure and then calls
  /// fail().
  bool claimFailure() { return !claimed.exchange(true); }
  /// Ends all waits.
  void fail(std::string reason);
  bool failed() const { return hasFailed; }
  /// Throws the failure with exit code 76, once fail() has been called.
  [[noreturn]] void throwFailure();
  /// Ends the process with exit code 76 if nobody has called throwFailure() within `grace` after
  /// the failure. 0: it does not end.
  void dieUnlessThrown(std::chrono::milliseconds grace);

  /// Waits until a condition holds, which is evaluated again after wake(). Returns whether it does.
  bool waitUntil(std::chrono::duration<double> most, const std::function<bool()> &condition);
  void wake();

private:
  std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::vector<Wait *> list;
  std::string failure; // "" as long as all is well
  Clock::time_point failedAt;
  std::atomic<bool> claimed{false}, hasFailed{false}, thrown{false};
};

} // namespace shale::rt

#endif
