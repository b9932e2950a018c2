// The mesh: coordinates and the parts of a batch.
#include "runtime/core/Rank.h"

#include <algorithm>

namespace shale::rt {

int axisTotal(const ShaleProgram &program) { return program.axis_count + program.joint_axis_count; }

const char *axisName(const ShaleProgram &program, int axis) {
  return axis < program.axis_count ? program.axes[axis].name
                                   : program.joint_axes[axis - program.axis_count].name;
}

int64_t axisSize(const ShaleProgram &program, int axis) {
  return axis < program.axis_count ? program.axes[axis].size
                                   : program.joint_axes[axis - program.axis_count].size;
}

bool runsOver(const ShaleProgram &program, int axis, int other) {
  if (axis < program.axis_count)
    return axis == other;
  const ShaleJointAxis &joint = program.joint_axes[axis - program.axis_count];
  return std::find(joint.members, joint.members + joint.member_count, other) !=
         joint.members + joint.member_count;
}

std::vector<int> ranksAlong(const ShaleProgram &program, int rank, int axis) {
  std::vector<int> ranks{rank};
  int stride = 1;
  for (int a = program.axis_count - 1; a >= 0; --a) {
    int size = static_cast<int>(program.axes[a].size);
    if (runsOver(program, axis, a)) {
      std::vector<int> before = std::move(ranks);
      ranks.clear();
      for (int at : before)
        for (int c = 0; c < size; ++c)
          ranks.push_back(at + (c - at / stride % size) * stride);
    }
    stride *= size;
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<int64_t> coordinatesOf(const ShaleProgram &program, int rank) {
  std::vector<int64_t> coordinates(axisTotal(program), 0);
  int64_t rest = rank;
  for (int a = program.axis_count - 1; a >= 0; --a) {
    coordinates[a] = rest % program.axes[a].size;
    rest /= program.axes[a].size;
  }
  for (int j = 0; j < program.joint_axis_count; ++j) {
    const ShaleJointAxis &joint = program.joint_axes[j];
    int64_t &own = coordinates[program.axis_count + j];
    for (int m = 0; m < joint.member_count; ++m)
      own = own * program.axes[joint.members[m]].size + coordinates[joint.members[m]];
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
