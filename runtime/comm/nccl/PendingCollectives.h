// Which collectives between GPUs are not complete.
//
// A captured call becomes a graph. Its events exist only in the graph, so a node after each
// collective copies a flag to pinned memory, which the watchdog reads.
#ifndef SHALE_RUNTIME_COMM_NCCL_PENDINGCOLLECTIVES_H
#define SHALE_RUNTIME_COMM_NCCL_PENDINGCOLLECTIVES_H

#include "runtime/comm/nccl/CollectiveConstants.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace shale::rt {

/// Numbers the collectives of a run in the order of their starts, and finds the oldest one that is
/// not complete. One thread starts collectives; another one may ask for them under lock().
class PendingCollectives {
public:
  using Clock = std::chrono::steady_clock;

  /// A collective that was started.
  struct Started {
    int32_t site = -1;  // -1: none was
    int64_t number = 0; // counted from 1 over all collectives
  };
  /// A collective that is not complete.
  struct Pending : Started {
    Clock::time_point since; // when it was posted, or when the one before it completed
  };

  PendingCollectives(const ShaleProgram &program, cuda::CudaDevice &device,
                     const CollectiveConstants &constants);

  /// Says that NCCL is asked to run a collective.
  void enter(int32_t site);
  /// Adds a collective that NCCL has enqueued on `stream` and that is complete on `end`. It sends
  /// `bytes`.
  void add(int32_t site, int64_t bytes, CUstream stream, CUstream end);
  /// Returns the bytes that all runs of a site have sent.
  int64_t bytesSent(int32_t site) const { return sites[site].sent; }

  // See cuda::GraphFollower.
  void beginCapture(ShaleFunction function);
  void endCapture();
  void launched(ShaleFunction function);

  /// Keeps other threads from starting collectives.
  std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex); }
  /// Returns the collective that was posted first of those that are not complete, or else the one
  /// that is being posted. The caller holds lock().
  std::optional<Pending> oldest();
  /// Returns the collective of an axis that was started last. The caller holds lock().
  const Started &lastAlong(int axis) const { return last[axis]; }

private:
  struct Site {
    int64_t bytes = 0; // sent by the calls of its last enqueueing
    int64_t sent = 0;
  };
  /// A run of a collective outside of graphs.
  struct Run : Started {
    CUevent done; // its own: the site's may have been recorded again by the next step
  };
  struct Launch {
    const std::vector<int32_t> &sites;
    int64_t firstNumber;
    CUevent done;
  };

  int64_t count(int32_t site);
  CUevent markDone(CUstream stream);
  void follow();
  std::optional<Pending> oldestOutside();
  std::optional<Pending> oldestOfGraph();

  const ShaleProgram &program;
  cuda::CudaDevice &device;
  const CollectiveConstants &constants;
  const cuda::Driver &cu = cuda::driver();
  std::vector<Site> sites;
  std::vector<Started> last; // by axis
  int64_t number = 0;

  /// Sites of each graph, in the order of their capture.
  std::map<ShaleFunction, std::vector<int32_t>> graphs;
  std::vector<int32_t> *capture = nullptr; // those of the graph that is being captured
  std::vector<CUstream> forked;            // streams that it has besides that of the device
  CUevent joined = nullptr;
  std::unique_ptr<Memory> flags; // 32 bits per site: 1 after it has run in the graph

  std::mutex mutex; // of what follows, `number` and `last`
  /// Graphs that are not complete, in order.
  std::deque<Launch> launches;
  /// Runs that are not complete, in order, or behind one that is not.
  std::deque<Run> runs;
  Clock::time_point ranSince; // when the first of them was posted or became the first
  /// A collective that NCCL is being asked to run: at the first use it connects the ranks, and
  /// waits for them inside of the call.
  std::optional<Pending> entering;
  std::vector<CUevent> spareEvents;
  size_t completed = 0; // collectives of the first graph, when last looked at
  Clock::time_point progressed;
};

} // namespace shale::rt

#endif
