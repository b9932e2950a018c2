// Work on the host in order with a stream of the GPU.
//
// Callbacks of the driver run one after another, and NCCL's communication over a network waits for
// callbacks of its own. So a callback only wakes a thread, and the stream waits in a node of its
// own for the number that the thread stores when the work is done. Both can be captured: the same
// node stores 0 again for the next work.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_HOSTTHREAD_H
#define SHALE_RUNTIME_DEVICE_CUDA_HOSTTHREAD_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Driver.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace shale::rt::cuda {

class HostThread {
public:
  /// `done` is pinned memory of 4 bytes that holds 0.
  HostThread(const Driver &cu, CUstream stream, std::unique_ptr<Memory> done);
  /// All work must be complete.
  ~HostThread();

  /// Enqueues work on the stream, and makes the stream wait for it. Work that is `captured` runs at
  /// each replay of the graph, and lives as long as this object. Ends the process on failure.
  void enqueue(std::function<void()> body, bool captured);

private:
  struct Work {
    std::function<void()> body;
    bool once;
    HostThread *thread;
  };
  void run();
  void wake(Work *work);

  const Driver &cu;
  CUstream stream;
  std::unique_ptr<Memory> done;
  std::deque<Work> captives; // work of graphs

  std::mutex mutex;
  std::condition_variable woken;
  Work *next = nullptr; // at most one: the stream waits for it
  bool ending = false;
  std::thread thread; // last: it uses the others
};

} // namespace shale::rt::cuda

#endif
