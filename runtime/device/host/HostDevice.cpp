// The host as the device: both memories are RAM, kernels and products run on threads.
#include "runtime/device/host/Host.h"
#include "runtime/device/host/Transfers.h"

#include <cstring>

namespace shale::rt {

namespace {
class HostDevice final : public Device {
public:
  explicit HostDevice(const ShaleProgram &program) : program(program), transfers(program) {}

  std::string describe() const override { return std::string("cpu (") + program.target + ")"; }

  std::unique_ptr<Memory> allocate(ShaleSpace, int64_t bytes, const char *what) override {
    return std::make_unique<Block>(bytes, what);
  }
  void read(void *target, const char *source, int64_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void write(char *target, const void *source, int64_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void fill(char *target, int byte, int64_t bytes) override { std::memset(target, byte, bytes); }

  void launch(const Launch &launch) override { launchOnThreads(launch); }
  void multiply(const Product &product) override { multiplyBatch(product); }
  void copy(void *target, const void *source, int64_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void startCopy(int32_t index, void *target, const void *source, int64_t bytes) override {
    transfers.start(index, target, source, bytes);
  }
  void waitCopy(int32_t index) override { transfers.wait(index); }

private:
  const ShaleProgram &program;
  Transfers transfers;
};
} // namespace

void checkDevice(const ShaleProgram &program) { checkCpu(program.target); }

std::unique_ptr<Device> openDevice(const ShaleProgram &program) {
  return std::make_unique<HostDevice>(program);
}

} // namespace shale::rt
