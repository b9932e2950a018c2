// The class of collectives over NCCL (NcclCollectives.cpp).
#ifndef SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
#define SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H

#include "runtime/comm/Connection.h"
#include "runtime/comm/nccl/Library.h"
#include "runtime/comm/nccl/Registration.h"
#include "runtime/core/TimeLimit.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <algorithm>
#include <atomic>
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
  NcclCollectives(const ShaleProgram &program, int rank, Peers &peers, cuda::CudaDevice &device,
                  double timeout);
  ~NcclCollectives() override;

  void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv, int64_t count,
             ShaleType type) override;
  void wait(int32_t site) override;
  int64_t bytesSent(int32_t site) const override { return sent[site]; }
  void awaitDiagnosis() override;
  void announceMemory(const std::vector<const Memory *> &blocks) override;
  void withdrawMemory() override { registration.clear(); }

  void beginCapture(ShaleFunction function) override;
  void endCapture() override;
  void launched(ShaleFunction function) override;

private:
  using Clock = std::chrono::steady_clock;

  /// The gathers, or the reductions, of an axis: they run one after another. Each of the two has a
  /// communicator and a stream, so that a gather does not wait until a reduction is complete.
  struct Lane {
    ncclComm_t comm = nullptr; // null: the program has no such collective
    CUstream stream = nullptr;
  };
  /// The ranks along one axis.
  struct Axis {
    int size = 1, own = 0;
    Lane gathers, reductions;
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

  /// A half of the scratch buffer: pieces of all ranks are received into one while those in the
  /// other are summed.
  struct Half {
    CUevent received = nullptr, summed = nullptr;
    bool used = false; // whether `summed` was recorded, in the same capture if there is one
  };

  // Join.cpp
  void join(int index, int rank);
  void connect(int index, Lane &lane, int first);
  TimeLimit limitConnecting(int index);
  void warmUp(int index);
  void warmUp(const Axis &axis, const Request &like, int64_t slice);

  Lane &laneOf(int axis, int32_t kind) {
    return gathers(kind) ? axes[axis].gathers : axes[axis].reductions;
  }
  void must(ncclResult_t result, int32_t site) const;
  void post(const Axis &axis, const Lane &lane);
  void order(CUstream stream, CUevent event, CUstream other);
  void makeConstants();
  void raiseFlag(int32_t site, CUstream stream);

  // Enqueue.cpp
  static bool sumsByProducts(int32_t kind, int32_t type);
  CUstream enqueue(const Axis &axis, const Lane &lane, const Request &request);
  void enqueueGather(const Axis &axis, const Lane &lane, const Request &request);
  void exchange(const Axis &axis, const Lane &lane, const Request &request, int64_t stride,
                int64_t begin, int64_t length, char *into);
  void sumPieces(const Axis &axis, const Lane &lane, const Request &request, int64_t stride);
  char *startOf(const Half &half) const {
    return scratch->data() + (&half - halves) * (scratch->size() / 128 * 64);
  }

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
  void guard();
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
  std::vector<Site> sites;
  std::vector<int64_t> sent; // bytes, by site
  std::vector<Request> bucket;
  std::unique_ptr<Memory> scratch;
  Registration registration{nccl()};
  // Sums of 16-bit floats.
  cuda::Blas products{/*workspace=*/0, /*bytes=*/0};
  CUstream sums = nullptr;
  Half halves[2];
  int next = 0; // the half that is received into next

  /// Device memory that is written once: a row of ones in bf16 and one in f16, each with an element
  /// per rank of the largest axis, and then the numbers that are copied to `flags`.
  std::unique_ptr<Memory> constants;
  int64_t rowBytes = 0; // from a row of ones to the next
  const char *one() const { return constants->data() + 2 * rowBytes; }
  const char *zeros() const { return one() + 4; } // of all sites
  int64_t number = 0;

  /// Sites of each graph, in the order of their capture.
  std::map<ShaleFunction, std::vector<int32_t>> graphs;
  std::vector<int32_t> *capture = nullptr; // those of the graph that is being captured
  std::vector<CUstream> forked;            // streams that it has besides that of the device
  CUevent joined = nullptr;
  std::unique_ptr<Memory> flags; // 32 bits per site: 1 after it has run in the graph
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

  // The watchdog. Its calls of the driver, and of NCCL, may wait for another thread that is inside
  // of the driver, so a second thread, which calls neither, looks whether the watchdog goes on.
  mutable std::mutex mutex;
  std::condition_variable ended;
  bool ending = false;
  std::atomic<int64_t> looked{0};    // how often the watchdog has looked
  std::atomic<int32_t> lastSite{-1}; // of the collective that was started last
  std::mutex guardMutex;
  std::condition_variable guardEnded;
  bool guardEnding = false;
  std::thread watchdog, guardian;
};

} // namespace shale::rt

#endif // SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
