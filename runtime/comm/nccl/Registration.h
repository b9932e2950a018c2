// Device memory that is registered with communicators of NCCL, which then sends from it and
// receives into it without copies, where its transports can.
#ifndef SHALE_RUNTIME_COMM_NCCL_REGISTRATION_H
#define SHALE_RUNTIME_COMM_NCCL_REGISTRATION_H

#include "runtime/comm/nccl/Library.h"
#include "runtime/device/Device.h"

#include <utility>
#include <vector>

namespace shale::rt {

/// Nothing is deregistered on destruction: a run that fails ends without it.
class Registration {
public:
  explicit Registration(const Nccl &library) : library(library) {}

  /// Registers a block with a communicator. Not during a capture.
  ncclResult_t add(ncclComm_t comm, const Memory &block);
  /// Deregisters all blocks, in reverse order. No collective on them may be under way or follow in
  /// a graph that was captured before. Errors are ignored: the process is about to end, or goes on
  /// without registration.
  void clear();

private:
  const Nccl &library;
  std::vector<std::pair<ncclComm_t, void *>> handles;
};

} // namespace shale::rt

#endif
