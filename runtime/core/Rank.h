// The runtime of this process as compiled code sees it, and the mesh.
#ifndef SHALE_RUNTIME_CORE_RANK_H
#define SHALE_RUNTIME_CORE_RANK_H

#include "shale/Runtime.h"

#include <cstdint>
#include <vector>

namespace shale::rt {

class Communicator;
class Watch;
class Transfers;

/// Coordinates of a rank; the last axis varies fastest.
std::vector<int64_t> coordinatesOf(const ShaleProgram &program, int rank);
/// Size of the mesh; 1 without axes.
int64_t meshSize(const ShaleProgram &program);
/// Whether an axis splits the batch.
bool isDataAxis(const ShaleAxis &axis);
/// Number of equal parts the batch is cut into, and which one a rank takes.
int64_t dataParts(const ShaleProgram &program);
int64_t dataPart(const ShaleProgram &program, int rank);

} // namespace shale::rt

struct ShaleRank {
  const ShaleProgram *program = nullptr;
  int rank = 0;
  int worldSize = 1;
  std::vector<int64_t> coordinates;
  shale::rt::Communicator *communicator = nullptr;
  const char *node = nullptr; // what runs now comes from it
  shale::rt::Watch *watch = nullptr; // while a step is watched
  shale::rt::Transfers *transfers = nullptr;
  char *hostState = nullptr, *hostArena = nullptr;
};

#endif
