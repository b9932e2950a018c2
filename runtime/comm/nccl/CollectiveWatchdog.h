// The watchdog of collectives between GPUs.
#ifndef SHALE_RUNTIME_COMM_NCCL_COLLECTIVEWATCHDOG_H
#define SHALE_RUNTIME_COMM_NCCL_COLLECTIVEWATCHDOG_H

#include "runtime/comm/nccl/Communicators.h"
#include "runtime/comm/nccl/PendingCollectives.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace shale::rt {

/// Ends the process with exit code 76 if a collective takes longer than `timeout` seconds, if NCCL
/// reports an error, or if the GPU's driver does not answer.
///
/// The watchdog's calls of the driver, and of NCCL, may wait for another thread that is inside of
/// the driver, so a second thread, which calls neither, looks whether the watchdog goes on.
class CollectiveWatchdog {
public:
  CollectiveWatchdog(const ShaleProgram &program, const Communicators &communicators,
                     PendingCollectives &collectives, CUcontext context, double timeout);
  ~CollectiveWatchdog();

  /// Says which collective was started last.
  void note(int32_t site) { lastSite = site; }
  /// See Collectives::awaitDiagnosis().
  void awaitDiagnosis();

private:
  /// How often the watchdog looks, in seconds.
  double pause() const { return std::clamp(timeout / 20, 0.01, 1.0); }
  void watchOver(CUcontext context);
  void guard();
  void requireNoError(const std::optional<PendingCollectives::Pending> &late) const;
  std::string describe(const PendingCollectives::Started &collective) const;

  const ShaleProgram &program;
  const Communicators &communicators;
  PendingCollectives &collectives;
  double timeout;

  std::condition_variable ended;
  bool ending = false;               // under collectives.lock()
  std::atomic<int64_t> looked{0};    // how often the watchdog has looked
  std::atomic<int32_t> lastSite{-1}; // of the collective that was started last
  std::mutex guardMutex;
  std::condition_variable guardEnded;
  bool guardEnding = false;
  std::thread watchdog, guardian;
};

} // namespace shale::rt

#endif
