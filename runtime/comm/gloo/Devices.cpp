// Collectives of the host device: those over Gloo.
#include "runtime/comm/Connection.h"

namespace shale::rt {

std::unique_ptr<Collectives> connectDevices(const ShaleProgram &, int, Peers &, Device &, double) {
  return nullptr;
}

} // namespace shale::rt
