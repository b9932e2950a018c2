// The class of collectives over NCCL (NcclCollectives.cpp).
#ifndef SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
#define SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H

#include "runtime/comm/Connection.h"
#include "runtime/comm/nccl/Library.h"
#include "runtime/comm/nccl/Registration.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace shale::rt {

class NcclCollectives final : public Collectives, public cuda::GraphFollower {
public:
  NcclCollectives(const ShaleProgram &program, const std::vector<int64_t> &coordinates,
                  Peers &peers, cuda::CudaDevice &device, double timeout);
  ~NcclCollectives() override;

  void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv, int64_t count,
             ShaleType type) override;
  void wait(int32_t site) override;
  int64_t bytesSent(int32_t site) const override { return sent[site]; }
  void awaitDiagnosis() override;
  void announceMemory(const std::vector<const Memory *> &blocks) override;
  void withdrawMemory() override { registration.clear(); }

  void beginCapture(ShaleFunction function) override;
  void endCapture() override { capture = nullptr; }
  void launched(ShaleFunction function) override;

private:
  using Clock = std::chrono::steady_clock;

  /// The ranks along one axis; no communicator if there is one rank and no collective.
  struct Axis {
    int size = 1, own = 0;
    ncclComm_t comm = nullptr;
    std::vector<int> others; // ranks
    int32_t lastSite = -1;   // of the collective that was started last
    int64_t lastNumber = 0;
  };
  struct Site {
    CUevent ready = nullptr, done = nullptr;
    int64_t bytes = 0; // sent by the calls of its last enqueueing
  };
  /// A run of a collective outside of graphs.
  struct Run {
    int32_t site;
    int64_t number; // counted from 1 over all collectives
    CUevent done;   // its own: the site's may have been recorded again by the next step
  };
  /// A collective that is not complete.
  struct Pending {
    int32_t site;
    int64_t number;
    Clock::time_point since; // when it was posted, or when the one before it completed
  };

  struct Launch {
    const std::vector<int32_t> &sites;
    int64_t firstNumber;
    CUevent done;
  };

  void join(int index, const std::vector<int64_t> &coordinates);
  void must(ncclResult_t result, int32_t site) const;
  void post(const Axis &axis, CUstream stream);
  void storeFlags(int32_t first, int32_t count, unsigned value, CUstream stream);
  static bool sumsByProducts(const Request &request);
  void enqueue(const Axis &axis, const Request &request, CUstream stream);
  void enqueueGather(const Axis &axis, const Request &request, CUstream stream);
  void sumPieces(const Axis &axis, const Request &request, CUstream stream, int64_t stride);
  /// How often the watchdog looks, and how long it asks other ranks, in seconds.
  double pause() const { return std::clamp(timeout / 20, 0.01, 1.0); }
  double patience() const { return std::clamp(timeout / 2, 0.5, 5.0); }
  CUevent markDone(CUstream stream);
  void enter(int32_t site);
  int64_t count(int32_t site);
  void follow();
  std::optional<Pending> oldest();
  std::optional<Pending> oldestOutside();
  std::optional<Pending> oldestOfGraph();
  void watchOver();
  void requireNoError(const std::optional<Pending> &late) const;
  std::string describe(int32_t site, int64_t number) const;
  std::string describeSilence(const Axis &axis) const;

  const ShaleProgram &program;
  Peers &peers;
  const cuda::Driver &cu;
  const Nccl &library;
  cuda::CudaDevice &device;
  double timeout;
  std::vector<Axis> axes;
  CUstream gathers = nullptr, reductions = nullptr;
  std::vector<Site> sites;
  std::vector<int64_t> sent; // bytes, by site
  std::vector<Request> bucket;
  std::unique_ptr<Memory> scratch;
  Registration registration{nccl()};
  cuda::Blas sums{/*workspace=*/0, /*bytes=*/0};
  std::unique_ptr<Memory> ones; // a 16-bit float per rank of an axis
  int64_t number = 0;

  /// Sites of each graph, in the order of their capture.
  std::map<ShaleFunction, std::vector<int32_t>> graphs;
  std::vector<int32_t> *capture = nullptr; // those of the graph that is being captured
  std::unique_ptr<Memory> flags;           // 32 bits per site: 1 after it has run in the graph
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

  // The watchdog.
  mutable std::mutex mutex;
  std::condition_variable ended;
  bool ending = false;
  std::thread watchdog;
};

} // namespace shale::rt

#endif // SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
