// The persistent state of a rank, in device and host memory.
#include "runtime/device/State.h"
#include "runtime/core/Error.h"

namespace shale::rt {

State::State(const ShaleProgram &program, Device &device)
    : device(device),
      deviceBlock(device.allocate(SHALE_SPACE_DEVICE, program.state_bytes, "state")),
      hostBlock(device.allocate(SHALE_SPACE_HOST, program.host_state_bytes, "the host's state")) {}

char *State::at(int64_t offset, int64_t bytes) const {
  if (offset >= 0 && offset + bytes <= deviceBlock->size())
    return deviceBlock->data() + offset;
  offset -= deviceBlock->size();
  if (offset < 0 || offset + bytes > hostBlock->size())
    fail(SHALE_EXIT_INTERNAL, "the program has no state of %lld bytes at offset %lld",
         (long long)bytes, (long long)offset + deviceBlock->size());
  return hostBlock->data() + offset;
}

void State::read(int64_t offset, void *target, int64_t bytes) const {
  device.read(target, at(offset, bytes), bytes);
}

void State::write(int64_t offset, const void *source, int64_t bytes) {
  device.write(at(offset, bytes), source, bytes);
}

} // namespace shale::rt
