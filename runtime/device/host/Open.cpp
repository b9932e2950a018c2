// Programs run on the host device, unless they are linked with another openDevice.
#include "runtime/device/host/Host.h"
#include "runtime/device/host/HostDevice.h"

namespace shale::rt {

void checkDevice(const ShaleProgram &program, const DeviceOptions &) { checkCpu(program.host); }

std::unique_ptr<Device> openDevice(const ShaleProgram &program, const DeviceOptions &) {
  return std::make_unique<HostDevice>(program);
}

} // namespace shale::rt
