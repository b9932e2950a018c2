// NCCL, opened at run time.
#ifndef SHALE_RUNTIME_COMM_NCCL_LIBRARY_H
#define SHALE_RUNTIME_COMM_NCCL_LIBRARY_H

#include "runtime/device/cuda/DynamicLibrary.h"

#include <nccl.h>
#include <string>

namespace shale::rt {

#define SHALE_NCCL_FUNCTIONS(X)                                                                    \
  X(ncclGetVersion)                                                                                \
  X(ncclGetErrorString)                                                                            \
  X(ncclGetLastError)                                                                              \
  X(ncclGetUniqueId)                                                                               \
  X(ncclCommInitRankConfig)                                                                        \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclCommRegister)                                                                              \
  X(ncclCommDeregister)                                                                            \
  X(ncclAllGather)                                                                                 \
  X(ncclReduceScatter)                                                                             \
  X(ncclAllReduce)                                                                                 \
  X(ncclSend)                                                                                      \
  X(ncclRecv)                                                                                      \
  X(ncclGroupStart)                                                                                \
  X(ncclGroupEnd)

struct Nccl {
  SHALE_NCCL_FUNCTIONS(SHALE_DECLARE_FUNCTION)
};

/// Opens NCCL 2.28 or later once. Throws with exit code 69.
const Nccl &nccl();

/// Makes NCCL launch the collectives of all communicators in the order of the calls, unless the
/// environment decides about it. Ranks that launch them in different orders wait for each other
/// without an end. Call it before the first communicator.
void orderLaunches();

/// Describes a failed call: "unhandled cuda error: out of memory".
std::string describeFailure(ncclResult_t result);

} // namespace shale::rt

#endif
