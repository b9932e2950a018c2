// Where the buffers of a program's tables are in the memory of a rank.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_BUFFERPLACES_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_BUFFERPLACES_H

#include "shale/Runtime.h"

namespace shale::rt {

/// Addresses of a rank's blocks.
struct WatchedBlocks {
  char *state, *hostState, *arena, *hostArena;
};

/// Relates addresses in a rank's blocks to the program's tables.
class BufferPlaces {
public:
  BufferPlaces(const ShaleProgram &program, const WatchedBlocks &blocks)
      : program(program), blocks(blocks) {}

  /// Returns the address of an offset as in ShaleState.
  char *stateAt(int64_t offset) const;
  /// Returns the address of a buffer of the program's table; null if it is not in an arena.
  char *placeOf(const ShaleBuffer &buffer) const;
  /// Returns the index of the buffer in an arena that has an address; -1 if there is none.
  int32_t bufferAt(const char *at) const;
  /// Whether an address is in a parameter, moment or momentum buffer; accumulated gradients, and
  /// what is not sent of them, are not included.
  bool inState(const char *at) const;
  bool inArena(const char *at) const;

private:
  const ShaleProgram &program;
  WatchedBlocks blocks;
};

} // namespace shale::rt

#endif
