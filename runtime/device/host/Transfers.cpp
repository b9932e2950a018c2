// Copies between device and host memory, on a separate thread.
#include "runtime/device/host/Transfers.h"
#include "runtime/core/Error.h"
#include "runtime/core/Trace.h"

#include <cstring>
#include <pthread.h>

namespace shale::rt {

Transfers::Transfers(const ShaleProgram &program)
    : program(program), ring(program.transfer_count), busy(program.transfer_count) {
  if (!ring.empty())
    thread = std::thread([this] {
      pthread_setname_np(pthread_self(), "shale-copies"); // for profilers and tests
      work();
    });
}

Transfers::~Transfers() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  posted.notify_one();
  if (thread.joinable())
    thread.join();
}

void Transfers::start(int32_t index, void *target, const void *source, int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (busy[index] || queued == ring.size())
      die(SHALE_EXIT_INTERNAL, format("copy %d is started again before it was waited for", index));
    busy[index] = 1;
    ring[(head + queued++) % ring.size()] = {index, target, source, bytes};
  }
  posted.notify_one();
}

void Transfers::wait(int32_t index) {
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&] { return !busy[index]; });
}

void Transfers::copy(const Request &request) const {
  int64_t begin = tracing() ? traceNow() : 0;
  std::memcpy(request.target, request.source, request.bytes);
  if (!begin)
    return;
  const ShaleTransfer &what = program.transfers[request.index];
  traceSpan(TraceStream::Copy, what.to_host ? "copy to host" : "copy to device",
            what.node && *what.node ? what.node : what.name, begin, request.bytes, what.name);
}

void Transfers::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    posted.wait(lock, [&] { return queued != 0 || ending; });
    if (queued == 0)
      return;
    Request request = ring[head];
    lock.unlock();
    copy(request);
    lock.lock();
    head = (head + 1) % ring.size();
    --queued;
    busy[request.index] = 0;
    finished.notify_all();
  }
}

} // namespace shale::rt
