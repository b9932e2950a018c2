// The watchdog of collectives between GPUs.
#include "runtime/comm/nccl/CollectiveWatchdog.h"
#include "runtime/core/Rank.h"

namespace shale::rt {

CollectiveWatchdog::CollectiveWatchdog(const ShaleProgram &program,
                                       const Communicators &communicators,
                                       PendingCollectives &collectives, CUcontext context,
                                       double timeout)
    : program(program), communicators(communicators), collectives(collectives), timeout(timeout),
      watchdog([this, context] { watchOver(context); }), guardian([this] { guard(); }) {}

CollectiveWatchdog::~CollectiveWatchdog() {
  {
    std::unique_lock<std::mutex> lock = collectives.lock();
    ending = true;
  }
  ended.notify_all();
  watchdog.join();
  {
    std::lock_guard<std::mutex> lock(guardMutex);
    guardEnding = true;
  }
  guardEnded.notify_all();
  guardian.join();
}

/// Returns kind, node and number of a collective, with an open parenthesis.
std::string CollectiveWatchdog::describe(const PendingCollectives::Started &collective) const {
  const ShaleSite &what = program.sites[collective.site];
  return format("%s '%s' (number %lld of the run",
                kindName(static_cast<ShaleCollectiveKind>(what.kind)), what.name,
                (long long)collective.number);
}

/// Ends the process if a communicator has an error. NCCL may find one while no collective is
/// pending, for example when it loses the connection to a rank.
void CollectiveWatchdog::requireNoError(
    const std::optional<PendingCollectives::Pending> &late) const {
  for (int a = 0; a < axisTotal(program); ++a) {
    ncclResult_t state = communicators.errorAlong(a);
    if (state == ncclSuccess)
      continue;
    const char *error = nccl().ncclGetErrorString(state);
    if (late && program.sites[late->site].axis == a)
      die(SHALE_EXIT_PEER, describe(*late) + ") failed: NCCL: " + error);
    const PendingCollectives::Started &last = collectives.lastAlong(a);
    std::string text = last.site < 0 ? "there was no collective yet"
                                     : "the last collective is " + describe(last) + ")";
    die(SHALE_EXIT_PEER, format("NCCL failed along axis '%s', where %s: %s", axisName(program, a),
                                text.c_str(), error));
  }
}

/// Ends the process if a collective takes too long, or if NCCL reports an error.
void CollectiveWatchdog::watchOver(CUcontext context) {
  if (cuda::driver().cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    looked = -1;
    return;
  }
  std::unique_lock<std::mutex> lock = collectives.lock();
  while (!ended.wait_for(lock, std::chrono::duration<double>(pause()), [&] { return ending; })) {
    std::optional<PendingCollectives::Pending> late = collectives.oldest();
    requireNoError(late);
    ++looked;
    if (late &&
        std::chrono::duration<double>(PendingCollectives::Clock::now() - late->since).count() >
            timeout) {
      const ShaleSite &what = program.sites[late->site];
      die(SHALE_EXIT_PEER, format("%s, %lld bytes sent per rank) is not complete after %.1f s: %s",
                                  describe(*late).c_str(), (long long)what.sent_bytes, timeout,
                                  communicators.describeSilence(what.axis).c_str()));
    }
  }
}

/// Ends the process if the watchdog is stuck. Counts its own pauses, since the time also passes
/// while a process is stopped.
void CollectiveWatchdog::guard() {
  int64_t seen = 0, pauses = 0;
  std::unique_lock<std::mutex> lock(guardMutex);
  while (!guardEnded.wait_for(lock, std::chrono::duration<double>(pause()),
                              [&] { return guardEnding; })) {
    int64_t now = looked;
    if (now < 0) // there is no watchdog
      return;
    pauses = now == seen ? pauses + 1 : 0;
    seen = now;
    if (pauses * pause() <= timeout + 2 * communicators.patience())
      continue;
    std::string last = "; there was no collective yet";
    if (int32_t site = lastSite; site >= 0) {
      const ShaleSite &what = program.sites[site];
      last = format("; the collective that was started last is %s '%s': %s",
                    kindName(static_cast<ShaleCollectiveKind>(what.kind)), what.name,
                    communicators.describeSilence(what.axis).c_str());
    }
    die(SHALE_EXIT_PEER,
        format("the GPU's driver does not answer for %.1f s", pauses * pause()) + last);
  }
}

void CollectiveWatchdog::awaitDiagnosis() {
  using Clock = PendingCollectives::Clock;
  auto end = Clock::now() + std::chrono::duration<double>(communicators.patience() + 2 * pause());
  while (Clock::now() < end) {
    // Waits while the watchdog asks others.
    if (auto lock = collectives.lock(); !collectives.oldest())
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

} // namespace shale::rt
