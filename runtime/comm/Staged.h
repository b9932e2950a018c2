// Collectives of a device with its own memory, through the host's memory.
#ifndef SHALE_RUNTIME_COMM_STAGED_H
#define SHALE_RUNTIME_COMM_STAGED_H

#include "runtime/comm/Collectives.h"
#include "runtime/device/Device.h"

#include <memory>

namespace shale::rt {

/// Returns collectives on device memory that `host` executes on copies in host memory. The copies
/// of a site's operand and result are allocated at its first run and kept. start() waits until the
/// device has done all work that is enqueued.
std::unique_ptr<Collectives> makeStagedCollectives(const ShaleProgram &program, Device &device,
                                                   std::unique_ptr<Collectives> host);

} // namespace shale::rt

#endif
