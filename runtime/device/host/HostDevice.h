// The host as the device: both memories are RAM, kernels and matmuls run on threads.
#ifndef SHALE_RUNTIME_DEVICE_HOST_HOSTDEVICE_H
#define SHALE_RUNTIME_DEVICE_HOST_HOSTDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/host/Transfers.h"

namespace shale::rt {

class HostDevice : public Device {
public:
  explicit HostDevice(const ShaleProgram &program) : program(program), transfers(program) {}

  std::string describe() const override;
  bool sharesMemory() const override { return true; }
  std::unique_ptr<Memory> allocate(ShaleSpace space, int64_t bytes, const char *what) override;
  void read(void *target, const char *source, int64_t bytes) override;
  void write(char *target, const void *source, int64_t bytes) override;
  void launch(const Launch &launch) override;
  void multiply(const Matmul &matmul) override;
  void copy(void *target, const void *source, int64_t bytes) override;
  void copyAcross(void *target, const void *source, int64_t bytes) override;
  void fill(void *target, int byte, int64_t bytes) override;
  void store(int64_t *target, int64_t value) override;
  void startCopy(int32_t index, void *target, const void *source, int64_t bytes) override;
  void waitCopy(int32_t index) override;
  void finish() override {} // work is done when its call returns
  std::unique_ptr<Mark> makeMark() override;
  void call(ShaleFunction, bool, const std::function<void()> &body) override { body(); }

private:
  const ShaleProgram &program;
  Transfers transfers;
};

} // namespace shale::rt

#endif
