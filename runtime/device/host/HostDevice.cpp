// The host as the device.
#include "runtime/device/host/HostDevice.h"
#include "runtime/device/host/Host.h"

#include <cstring>

namespace shale::rt {

std::string HostDevice::describe() const { return std::string("cpu (") + program.target + ")"; }

std::unique_ptr<Memory> HostDevice::allocate(ShaleSpace, int64_t bytes, const char *what) {
  return std::make_unique<Block>(bytes, what);
}

void HostDevice::read(void *target, const char *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
}

void HostDevice::write(char *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
}

std::unique_ptr<Mark> HostDevice::makeMark() {
  struct Passed final : Mark {
    void set() override {}
    void wait() override {}
  };
  return std::make_unique<Passed>();
}

void HostDevice::launch(const Launch &launch) { launchOnThreads(launch); }

void HostDevice::multiply(const Matmul &matmul) {
  matmul.groups ? multiplyGroups(matmul) : multiplyBatch(matmul);
  if (matmul.epilogue)
    matmul.launchEpilogue(launchOnThreads);
}

void HostDevice::copy(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
}

void HostDevice::copyAcross(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, bytes);
}

void HostDevice::fill(void *target, int byte, int64_t bytes) { std::memset(target, byte, bytes); }

void HostDevice::store(int64_t *target, int64_t value) { *target = value; }

void HostDevice::startCopy(int32_t index, void *target, const void *source, int64_t bytes) {
  transfers.start(index, target, source, bytes);
}

void HostDevice::waitCopy(int32_t index) { transfers.wait(index); }

} // namespace shale::rt
