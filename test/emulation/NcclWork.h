// Communicators of the emulated NCCL, and the operations that they put on streams.
#ifndef SHALE_TEST_EMULATION_NCCLWORK_H
#define SHALE_TEST_EMULATION_NCCLWORK_H

#include "NcclShared.h"
#include "Stub.h"

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shale::stub {

struct Communicator {
  std::unique_ptr<Link> link;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> error{ncclSuccess}; ///< asynchronous; ncclInProgress: not connected
  uint64_t exchanges = 0;                       ///< of values by the host
  bool met = false;                             ///< whether its ranks have waited for one another
  std::map<void *, std::pair<CUdeviceptr, uint64_t>> registered; ///< start and bytes, by handle
  // Operations of a communicator run one after the other, whatever their streams.
  std::atomic<uint64_t> begun{0}, finished{0};
  /// Operations that finish before an error that the environment asks for; -1: none.
  std::atomic<int64_t> failsAfter{-1};
  int asked = 0; ///< how often since then

  void fail(ncclResult_t result, const std::string &message);
};

enum class Kind : int32_t { AllGather, ReduceScatter, AllReduce, Broadcast, Send, Receive };

/// A call of the program.
struct Call {
  Kind kind;
  CUdeviceptr from, to; ///< what is sent, and where the result goes
  uint64_t count;       ///< as the caller states it
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = 0;            ///< or the root
  bool silent = false;     ///< never posts
  bool registered = false; ///< whether all memory of this rank is
};

/// Bytes of an element, or 0 if the type is not known.
size_t sizeOf(ncclDataType_t type);

/// Enqueues the calls of a group as one operation.
CUresult enqueue(std::shared_ptr<Communicator> communicator, CUstream stream,
                 std::vector<Call> calls);

} // namespace shale::stub

#endif
