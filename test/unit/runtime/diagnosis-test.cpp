// Which call made the first value that is not finite.
#include "runtime/device/host/HostDevice.h"
#include "runtime/program/reports/Diagnosis.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace shale::rt;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity();

/// Calls of one rank. A call writes `value` to the second half of a buffer of two floats.
class FirstBadValue : public ::testing::Test {
protected:
  FirstBadValue() {
    axis = {"fsdp", 2, 1};
    site = {"grad", SHALE_ALL_REDUCE, 0, 0, 1, 0, 1, SHALE_F32};
    program.axes = &axis, program.axis_count = 1;
    program.sites = &site, program.site_count = 1;
    rank.program = &program;
    rank.device = &device;
  }
  void call(const char *node, std::vector<float *> reads, float *write, float value) {
    rank.node = node;
    std::vector<Operand> operands;
    for (float *buffer : reads)
      operands.push_back({buffer, 2, SHALE_F32});
    diagnosis.call("kernel", operands, {{write, 2, SHALE_F32}});
    write[0] = 1, write[1] = value;
    diagnosis.after();
  }
  /// An all-reduce that gets `value` from all ranks.
  void reduce(float *send, float *receive, float value) {
    diagnosis.start(0, send, receive, 2, SHALE_F32);
    diagnosis.after();
    send[0] = 0, send[1] = 0; // may be reused once it is sent
    diagnosis.wait(0);
    receive[0] = 1, receive[1] = value;
    diagnosis.after();
  }
  std::string found() { return Diagnosis::choose({diagnosis.finding(loss + 1)}); }

  ShaleAxis axis;
  ShaleSite site;
  ShaleProgram program{};
  HostDevice device{program};
  ShaleRank rank;
  float weight[2] = {1, 2}, a[2] = {}, b[2] = {}, c[2] = {}, mask[2] = {}, loss[2] = {};
  Diagnosis diagnosis{
      rank, [this](const void *at) { return std::string(at == weight ? "parameter 'w'" : ""); }};
};

TEST_F(FirstBadValue, IsFollowedThroughBuffersThatAreUsedAgain) {
  call("/one", {weight}, a, 3);
  call("/exp", {a}, b, inf);
  call("/sub", {b}, a, NAN); // over the buffer of /one
  call("/other", {weight}, b, 4);
  call("/sum", {a, b}, loss, NAN);
  EXPECT_EQ(found(), "on rank 0, node '/exp' (kernel) gave Inf, and all that it read was finite");
}

TEST_F(FirstBadValue, MayBeAParameter) {
  weight[1] = NAN;
  call("/one", {a, weight}, b, NAN);
  call("/sum", {b}, loss, NAN);
  EXPECT_EQ(found(), "on rank 0, node '/one' (kernel) gave NaN, and parameter 'w' held NaN");
}

// A mask is no cause if its values vanish; it is one if nothing else is.
TEST_F(FirstBadValue, IsNotThatOfAMask) {
  call("/mask", {}, mask, -inf);
  call("/softmax", {mask}, a, 0.5);
  call("/log", {a}, b, NAN);
  call("/mean", {b, mask}, loss, NAN);
  EXPECT_EQ(found(), "on rank 0, node '/log' (kernel) gave NaN, and all that it read was finite");
  call("/softmax", {mask}, a, NAN);
  call("/mean", {a}, loss, NAN);
  EXPECT_EQ(found(), "on rank 0, node '/mask' (kernel) gave -Inf, and all that it read was finite");
}

TEST_F(FirstBadValue, MayComeFromAnotherRank) {
  call("/one", {weight}, a, 3);
  reduce(a, b, NAN);
  call("/sum", {b}, loss, NAN);
  std::string own = diagnosis.finding(loss);
  EXPECT_EQ(Diagnosis::choose({own}),
            "on rank 0, collective 'grad' (all-reduce) gave NaN, and all that it read was finite");
  // The other rank has a cause of its own, which comes first.
  Diagnosis theirs{rank, [](const void *) { return std::string(); }};
  rank.node = "/there";
  theirs.call("kernel", {{weight, 2, SHALE_F32}}, {{loss, 2, SHALE_F32}});
  theirs.after();
  EXPECT_EQ(Diagnosis::choose({own, theirs.finding(loss)}),
            "on rank 1, node '/there' (kernel) gave NaN, and all that it read was finite");
  EXPECT_EQ(Diagnosis::choose({"", ""}), "");
}

TEST_F(FirstBadValue, WhatWasSentCountsAsItWasThen) {
  call("/log", {weight}, a, NAN);
  reduce(a, b, NAN);
  call("/sum", {b}, loss, NAN);
  EXPECT_EQ(found(), "on rank 0, node '/log' (kernel) gave NaN, and all that it read was finite");
}

TEST_F(FirstBadValue, FiniteResultsHaveNoCause) {
  call("/mask", {}, mask, -inf);
  call("/sum", {mask}, loss, 1);
  EXPECT_EQ(found(), "");
}

TEST(Badness, OfEachType) {
  const float floats[] = {1, -inf, 2, inf, 3};
  EXPECT_EQ(worstOf(floats, 1, SHALE_F32), Badness::Finite);
  EXPECT_EQ(worstOf(floats, 2, SHALE_F32), Badness::NegativeInf);
  EXPECT_EQ(worstOf(floats, 5, SHALE_F32), Badness::Inf);
  const double doubles[] = {1, NAN};
  EXPECT_EQ(worstOf(doubles, 2, SHALE_F64), Badness::NaN);
  const uint16_t bf16[] = {0x3f80, 0xff80, 0x7f80, 0x7fc0},
                 f16[] = {0x3c00, 0xfc00, 0x7c00, 0x7e00};
  for (int n = 1; n <= 4; ++n) {
    EXPECT_EQ(worstOf(bf16, n, SHALE_BF16), static_cast<Badness>(n - 1));
    EXPECT_EQ(worstOf(f16, n, SHALE_F16), static_cast<Badness>(n - 1));
  }
  const uint8_t e4m3[] = {0x7e, 0x80, 0xff}, e5m2[] = {0x7b, 0xfc, 0x7c, 0x7f};
  EXPECT_EQ(worstOf(e4m3, 2, SHALE_F8_E4M3), Badness::Finite);
  EXPECT_EQ(worstOf(e4m3, 3, SHALE_F8_E4M3), Badness::NaN);
  for (int n = 1; n <= 4; ++n)
    EXPECT_EQ(worstOf(e5m2, n, SHALE_F8_E5M2), static_cast<Badness>(n - 1));
  const int64_t integers[] = {-1};
  EXPECT_EQ(worstOf(integers, 1, SHALE_I64), Badness::Finite);
}
} // namespace
