// The runtime state of this process, which compiled code passes as ShaleRank, and the mesh.
#ifndef SHALE_RUNTIME_CORE_RANK_H
#define SHALE_RUNTIME_CORE_RANK_H

#include "shale/Runtime.h"

#include <cstdint>
#include <vector>

namespace shale::rt {

class Collectives;
class Device;
class Observer;

/// Returns the number of axes of the mesh and of joint ones, whose indexes follow.
int axisTotal(const ShaleProgram &program);
const char *axisName(const ShaleProgram &program, int axis);
int64_t axisSize(const ShaleProgram &program, int axis);
/// Whether the ranks along an axis differ in their coordinate on `other`, an axis of the mesh.
bool runsOver(const ShaleProgram &program, int axis, int other);
/// Returns the ranks that differ from `rank` in no coordinate but those of an axis, ascending.
std::vector<int> ranksAlong(const ShaleProgram &program, int rank, int axis);
/// Returns the coordinates of a rank on all axes; the last axis of the mesh varies fastest.
std::vector<int64_t> coordinatesOf(const ShaleProgram &program, int rank);
/// Returns the number of ranks of the mesh; 1 without axes.
int64_t meshSize(const ShaleProgram &program);
/// Return the number of equal parts that the batch is cut into, and the index of a rank's part.
int64_t dataParts(const ShaleProgram &program);
int64_t dataPart(const ShaleProgram &program, int rank);

} // namespace shale::rt

struct ShaleRank {
  const ShaleProgram *program = nullptr;
  int rank = 0;
  int worldSize = 1;
  std::vector<int64_t> coordinates;
  shale::rt::Collectives *collectives = nullptr;
  shale::rt::Device *device = nullptr;
  const char *node = nullptr;              // node of the model that is running now
  shale::rt::Observer *observer = nullptr; // set while each call of a step is observed
  char *hostState = nullptr, *hostArena = nullptr;
  // Inputs and hyper-parameters for kernels on the host; constants in the device's memory.
  const void *const *hostInputs = nullptr;
  const float *hostHyper = nullptr;
  const void *constants = nullptr;
  double waited = 0; // seconds in which the process waited for collectives
};

#endif
