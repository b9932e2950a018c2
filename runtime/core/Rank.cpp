// The mesh: coordinates and the parts of a batch.
#include "runtime/core/Rank.h"

namespace shale::rt {

std::vector<int64_t> coordinatesOf(const ShaleProgram &program, int rank) {
  std::vector<int64_t> coordinates(program.axis_count, 0);
  int64_t rest = rank;
  for (int a = program.axis_count - 1; a >= 0; --a) {
    coordinates[a] = rest % program.axes[a].size;
    rest /= program.axes[a].size;
  }
  return coordinates;
}

int64_t meshSize(const ShaleProgram &program) {
  int64_t size = 1;
  for (int a = 0; a < program.axis_count; ++a)
    size *= program.axes[a].size;
  return size;
}

int64_t dataParts(const ShaleProgram &program) {
  int64_t parts = 1;
  for (int a = 0; a < program.axis_count; ++a)
    if (program.axes[a].splits_batch)
      parts *= program.axes[a].size;
  return parts;
}

int64_t dataPart(const ShaleProgram &program, int rank) {
  std::vector<int64_t> coordinates = coordinatesOf(program, rank);
  int64_t part = 0;
  for (int a = 0; a < program.axis_count; ++a)
    if (program.axes[a].splits_batch)
      part = part * program.axes[a].size + coordinates[a];
  return part;
}

} // namespace shale::rt
