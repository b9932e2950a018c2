// The waits of this rank for others, and the failure that ends them.
#include "runtime/comm/mesh/OpenWaits.h"
#include "runtime/comm/mesh/Frames.h"
#include "runtime/core/Error.h"
#include "runtime/core/StorageWait.h"

#include <algorithm>
#include <utility>

namespace shale::rt {

OpenWaits::Wait::Wait(OpenWaits &all, Awaited &transfers)
    : transfers(transfers), since(Clock::now()), work(StorageWait::ofThread()), all(all) {
  std::lock_guard<std::mutex> lock(all.mutex);
  all.list.push_back(this);
}

OpenWaits::Wait::~Wait() {
  std::lock_guard<std::mutex> lock(all.mutex);
  all.list.erase(std::find(all.list.begin(), all.list.end(), this));
}

uint64_t OpenWaits::kinds(std::chrono::milliseconds lasted) {
  std::lock_guard<std::mutex> lock(mutex);
  auto before = Clock::now() - lasted;
  uint64_t found = 0;
  for (const Wait *one : list)
    if (one->since < before)
      found |= one->work ? kPatient : kWaits;
  return found;
}

void OpenWaits::fail(std::string reason) {
  std::lock_guard<std::mutex> lock(mutex);
  failure = std::move(reason);
  failedAt = Clock::now();
  hasFailed = true;
  for (Wait *one : list) {
    std::lock_guard<std::mutex> inner(one->transfers.mutex);
    one->transfers.changed.notify_all();
  }
  changed.notify_all();
}

void OpenWaits::throwFailure() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return failed(); }); // another thread is telling the others
  thrown = true;
  throw Error(SHALE_EXIT_PEER, failure);
}

void OpenWaits::dieUnlessThrown(std::chrono::milliseconds grace) {
  std::unique_lock<std::mutex> lock(mutex);
  if (Clock::now() - failedAt > grace && grace.count() > 0 && !thrown)
    die(SHALE_EXIT_PEER, failure + "; this rank was computing");
}

bool OpenWaits::waitUntil(std::chrono::duration<double> most,
                          const std::function<bool()> &condition) {
  std::unique_lock<std::mutex> lock(mutex);
  return changed.wait_for(lock, most, condition);
}

void OpenWaits::wake() {
  {
    std::lock_guard<std::mutex> lock(mutex);
  }
  changed.notify_all();
}

} // namespace shale::rt
