// Which parts of the state are replicas, and how ranks that differ are named.
#include "runtime/core/Error.h"
#include "runtime/program/reports/Replicas.h"

#include <gtest/gtest.h>

using namespace shale::rt;

namespace {
/// A mesh of 2 replicas and 2 shards: a weight that is whole on every rank, and its moment, whose
/// halves are on two ranks each.
struct Small {
  int64_t dims[1] = {32};
  ShaleAxis axes[2] = {{"replica", 2, 1}, {"fsdp", 2, 1}};
  ShaleParameter parameters[1] = {};
  ShaleSegment segments[1] = {
      {0, 0, 30, 0, nullptr, nullptr, nullptr, nullptr}}; // the rest is padding
  ShaleGroup groups[1] = {{"root", 32, segments, 1}};
  ShaleState states[2] = {{0, SHALE_ROLE_PARAM, SHALE_F32, -1, 0, 32},
                          {0, SHALE_ROLE_SLOT, SHALE_F32, 1, 128, 16}};
  const char *slots[1] = {"moment1"};
  const char *metrics[2] = {"loss", "grad_norm"};
  ShaleProgram program{};

  explicit Small(int64_t replicas = 2) {
    axes[0].size = replicas;
    parameters[0].name = "weight";
    parameters[0].type = SHALE_F32;
    parameters[0].rank = 1;
    parameters[0].dims = dims;
    parameters[0].count = 30;
    program.axis_count = 2, program.axes = axes;
    program.parameter_count = 1, program.parameters = parameters;
    program.group_count = 1, program.groups = groups;
    program.state_count = 2, program.states = states;
    program.slot_count = 1, program.slots = slots;
    program.metric_count = 2, program.metrics = metrics;
  }
};

/// Checksums of four ranks: loss, norm, weight, this rank's half of the moment. `rank` sends
/// another one for the value at `place`.
std::string compared(int rank = 0, size_t place = 9, int second = -1) {
  Small small;
  std::vector<std::string> texts;
  for (int r = 0; r < 4; ++r) {
    std::vector<uint64_t> sums = {11, 12, 13, r % 2 ? 15u : 14u};
    if ((r == rank || r == second) && place < sums.size())
      sums[place] = 100 + r;
    texts.emplace_back(reinterpret_cast<const char *>(sums.data()), sums.size() * 8);
  }
  return Replicas(small.program, 0).compare(texts);
}

TEST(Replicas, EqualChecksumsPass) { EXPECT_EQ(compared(), ""); }

TEST(Replicas, TheRankThatDiffersIsNamedWithTheTensor) {
  EXPECT_EQ(compared(2, 2), "'weight' (param): rank 2 differs from ranks 0, 1, 3");
  EXPECT_EQ(compared(3, 0), "the metric 'loss': rank 3 differs from ranks 0, 1, 2");
  EXPECT_EQ(compared(1, 2, 3), "'weight' (param): rank 1, rank 3 differ from ranks 0, 2");
}

// Halves of the moment are compared with the same half on another replica, not with the other half.
TEST(Replicas, PartsAreComparedWithTheSamePart) {
  EXPECT_EQ(compared(1, 3), "'weight' (moment1): rank 1 differs from rank 3");
  EXPECT_EQ(compared(2, 3), "'weight' (moment1): rank 0 differs from rank 2");
}

TEST(Replicas, ARankThatSendsTooLittleIsADefect) {
  Small small;
  EXPECT_THROW(Replicas(small.program, 0).compare(std::vector<std::string>(4, "12345678")), Error);
}

TEST(Replicas, WithoutReplicasOnlyMetricsAreCompared) {
  Small small(1);
  small.program.states = small.states + 1, small.program.state_count = 1;
  EXPECT_FALSE(Replicas(small.program, 0).anyState());
  EXPECT_TRUE(Replicas(Small().program, 0).anyState());
}
} // namespace
