// The class of collectives over NCCL (NcclCollectives.cpp).
#ifndef SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
#define SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/nccl/CollectiveCalls.h"
#include "runtime/comm/nccl/CollectiveConstants.h"
#include "runtime/comm/nccl/CollectiveWatchdog.h"
#include "runtime/comm/nccl/Communicators.h"
#include "runtime/comm/nccl/PendingCollectives.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <vector>

namespace shale::rt {

/// Starts the collectives of compiled code beside the compute stream, and makes that stream wait
/// for them.
class NcclCollectives final : public Collectives, public cuda::GraphFollower {
public:
  NcclCollectives(const ShaleProgram &program, int rank, Peers &peers, cuda::CudaDevice &device,
                  double timeout);
  ~NcclCollectives() override;

  void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv, int64_t count,
             ShaleType type) override;
  void wait(int32_t site) override;
  int64_t bytesSent(int32_t site) const override { return pending.bytesSent(site); }
  void awaitDiagnosis() override { watchdog.awaitDiagnosis(); }
  void announceMemory(const std::vector<const Memory *> &blocks) override;
  void withdrawMemory() override { communicators.deregisterMemory(); }

  void beginCapture(ShaleFunction function) override;
  void endCapture() override;
  void launched(ShaleFunction function) override { pending.launched(function); }

private:
  struct Site {
    CUevent ready = nullptr, done = nullptr;
  };

  const ShaleProgram &program;
  cuda::CudaDevice &device;
  const cuda::Driver &cu = cuda::driver();
  std::vector<Site> sites;
  std::vector<Request> bucket; // started, but not yet enqueued
  CollectiveConstants constants;
  PendingCollectives pending;
  Communicators communicators;
  CollectiveCalls calls;
  CollectiveWatchdog watchdog; // last: its threads use the others
};

} // namespace shale::rt

#endif // SHALE_RUNTIME_COMM_NCCL_NCCLCOLLECTIVES_H
