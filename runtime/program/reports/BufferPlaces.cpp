// Where the buffers of a program's tables are in the memory of a rank.
#include "runtime/program/reports/BufferPlaces.h"
#include "runtime/core/Types.h"

#include <algorithm>

namespace shale::rt {

char *BufferPlaces::stateAt(int64_t offset) const {
  return offset < program.state_bytes ? blocks.state + offset
                                      : blocks.hostState + (offset - program.state_bytes);
}

char *BufferPlaces::placeOf(const ShaleBuffer &buffer) const {
  if (buffer.block != SHALE_BLOCK_ARENA)
    return nullptr;
  return (buffer.space == SHALE_SPACE_HOST ? blocks.hostArena : blocks.arena) + buffer.offset;
}

int32_t BufferPlaces::bufferAt(const char *at) const {
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    const char *begin = placeOf(buffer);
    if (begin && at >= begin && at < begin + std::max<int64_t>(buffer.bytes, 1))
      return i;
  }
  return -1;
}

bool BufferPlaces::inState(const char *at) const {
  for (int32_t i = 0; i < program.state_count; ++i) {
    const ShaleState &slot = program.states[i];
    int64_t bytes = slot.local_count * sizeOf(static_cast<Dtype>(slot.type));
    const char *begin = stateAt(slot.offset);
    if (at >= begin && at < begin + bytes)
      return slot.role != SHALE_ROLE_RESIDUAL;
  }
  return false;
}

bool BufferPlaces::inArena(const char *at) const {
  return (at >= blocks.arena && at < blocks.arena + program.arena_bytes) ||
         (at >= blocks.hostArena && at < blocks.hostArena + program.host_arena_bytes);
}

} // namespace shale::rt
