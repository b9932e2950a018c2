// The persistent state of a rank: a block in device memory and one in host memory.
// Offsets are those of ShaleState: host memory follows at state_bytes.
#ifndef SHALE_RUNTIME_DEVICE_STATE_H
#define SHALE_RUNTIME_DEVICE_STATE_H

#include "runtime/device/Device.h"

namespace shale::rt {

/// What a save reads: the state, or a copy of it.
class StateReader {
public:
  virtual ~StateReader() = default;
  /// Copies `bytes` at `offset` to memory of the process.
  virtual void read(int64_t offset, void *target, int64_t bytes) const = 0;
};

class State final : public StateReader {
public:
  State(const ShaleProgram &program, Device &device);

  /// Addresses for compiled code.
  char *deviceData() const { return deviceBlock->data(); }
  char *hostData() const { return hostBlock->data(); }
  const Memory &deviceMemory() const { return *deviceBlock; }

  void read(int64_t offset, void *target, int64_t bytes) const override;
  /// Copies memory of the process to `bytes` at `offset`.
  void write(int64_t offset, const void *source, int64_t bytes);

private:
  char *at(int64_t offset, int64_t bytes) const;

  Device &device;
  std::unique_ptr<Memory> deviceBlock, hostBlock;
};

} // namespace shale::rt

#endif
