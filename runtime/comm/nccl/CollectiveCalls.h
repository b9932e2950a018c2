// Calls of NCCL for collectives (CollectiveCalls.cpp).
#ifndef SHALE_RUNTIME_COMM_NCCL_COLLECTIVECALLS_H
#define SHALE_RUNTIME_COMM_NCCL_COLLECTIVECALLS_H

#include "runtime/comm/nccl/CollectiveConstants.h"
#include "runtime/comm/nccl/Communicators.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <memory>
#include <vector>

namespace shale::rt {

/// Enqueues collectives on the streams of their axes, and counts the bytes that they send.
class CollectiveCalls {
public:
  /// Allocates the scratch buffer, and runs each kind of collective of the program once.
  CollectiveCalls(const ShaleProgram &program, cuda::CudaDevice &device,
                  const Communicators &communicators, const CollectiveConstants &constants);

  /// Enqueues collectives of one axis and kind as one group, and returns the stream on which they
  /// are complete. Ends the process with exit code 76 if a call fails.
  CUstream enqueue(const std::vector<Request> &bucket);
  /// Returns the bytes that the calls of the last enqueueing of a site send.
  int64_t bytesOf(int32_t site) const { return sent[site]; }
  /// Says that the next collectives are not in the same capture as those before.
  void forgetSums();
  /// The receive buffer for reductions.
  const Memory &receiveScratch() const { return *scratch; }

private:
  using Axis = Communicators::Axis;
  using Lane = Communicators::Lane;

  /// A half of the scratch buffer: pieces of all ranks are received into one while those in the
  /// other are summed.
  struct Half {
    CUevent received = nullptr, summed = nullptr;
    bool used = false; // whether `summed` was recorded, in the same capture if there is one
  };

  static bool sumsByMatmuls(int32_t kind, int32_t type);
  void warmUp(int index);
  void warmUp(const Axis &axis, const Request &like, int64_t slice);

  void must(ncclResult_t result, int32_t site) const;
  CUstream enqueue(const Axis &axis, const Lane &lane, const Request &request);
  void enqueueGather(const Axis &axis, const Lane &lane, const Request &request);
  void exchange(const Axis &axis, const Lane &lane, const Request &request, int64_t stride,
                int64_t begin, int64_t length, char *into);
  void sumPieces(const Axis &axis, const Lane &lane, const Request &request, int64_t stride);
  char *startOf(const Half &half) const {
    return scratch->data() + (&half - halves) * (scratch->size() / 128 * 64);
  }

  const ShaleProgram &program;
  const Communicators &communicators;
  const CollectiveConstants &constants;
  const cuda::Driver &cu = cuda::driver();
  const Nccl &library = nccl();
  std::unique_ptr<Memory> scratch;
  std::vector<int64_t> sent; // bytes, by site
  // Sums of 16-bit floats.
  cuda::Blas matmuls{/*workspace=*/0, /*bytes=*/0};
  CUstream sums = nullptr;
  Half halves[2];
  int next = 0; // the half that is received into next
};

} // namespace shale::rt

#endif
