// Matmuls with epilogues on a device without a library for them, and how they are listed.
#include "runtime/core/Rank.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/program/calls/Matmuls.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace shale::rt;

namespace {

using Bits = std::vector<uint16_t>; // bf16

float wide(uint16_t bits) {
  uint32_t all = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &all, sizeof(value));
  return value;
}
uint16_t narrow(float value) { // exact for the numbers below
  uint32_t all;
  std::memcpy(&all, &value, sizeof(all));
  return uint16_t(all >> 16);
}

/// Kernel over a matmul of two columns: reads it and a bias, writes the negative sum over it, and
/// the sum.
void negativeSum(void *const *args, int64_t begin, int64_t end) {
  auto *matmul = static_cast<uint16_t *>(args[0]), *bias = static_cast<uint16_t *>(args[1]);
  auto *result = static_cast<uint16_t *>(args[2]), *before = static_cast<uint16_t *>(args[3]);
  for (int64_t i = begin * 2; i < end * 2; ++i) {
    float sum = wide(matmul[i]) + wide(bias[i % 2]);
    result[i] = narrow(-sum);
    before[i] = narrow(sum);
  }
}

/// [1 2; 3 4] times itself, plus (1, 2): [8 12; 16 24].
struct Call {
  Bits a{narrow(1), narrow(2), narrow(3), narrow(4)}, bias{narrow(1), narrow(2)}, c = Bits(4),
                                                                                  before = Bits(4);
  ShaleProgram program = {};
  HostDevice device{program};
  ShaleRank rank;

  Call() { rank.device = &device; }
  void run(void *stored) {
    ShaleGemm gemm{};
    gemm.batch = 1, gemm.m = 2, gemm.n = 2, gemm.k = 2;
    gemm.a = a.data(), gemm.b = a.data(), gemm.c = c.data();
    gemm.lda = 2, gemm.ldb = 2, gemm.ldc = 2;
    gemm.type = SHALE_BF16, gemm.b_type = SHALE_BF16, gemm.result_type = SHALE_BF16;
    ShaleGemmEpilogue epilogue{};
    epilogue.epilogue = SHALE_EPILOGUE_GELU;
    epilogue.with = bias.data(), epilogue.before = stored;
    epilogue.kernel = reinterpret_cast<const void *>(negativeSum);
    epilogue.rows = 2, epilogue.grain = 1;
    shale_gemm_epilogue(&rank, &gemm, &epilogue);
  }
};

} // namespace

TEST(Epilogues, AreKernelsWithoutALibrary) {
  Call call;
  call.run(call.before.data());
  EXPECT_EQ(call.before, (Bits{narrow(8), narrow(12), narrow(16), narrow(24)}));
  EXPECT_EQ(call.c, (Bits{narrow(-8), narrow(-12), narrow(-16), narrow(-24)}));
}

// A device may compute the matmul alone, which has an algorithm of its own.
TEST(Epilogues, AreListedAfterTheMatmulAlone) {
  Call call;
  std::vector<Matmul> matmuls = listMatmuls(call.rank, [&] {
    call.run(call.before.data());
    call.run(nullptr);
  });
  ASSERT_EQ(matmuls.size(), 4u);
  EXPECT_FALSE(matmuls[0].epilogue);
  EXPECT_EQ(matmuls[0].c, call.c.data());
  EXPECT_TRUE(matmuls[1].epilogue);
  EXPECT_EQ(matmuls[1].epilogue.kind, SHALE_EPILOGUE_GELU);
  EXPECT_EQ(matmuls[1].epilogue.with, call.bias.data());
  EXPECT_EQ(matmuls[1].epilogue.before, call.before.data());
  EXPECT_FALSE(matmuls[2].epilogue);
  EXPECT_EQ(matmuls[3].epilogue.before, nullptr);
  EXPECT_EQ(call.c, Bits(4)); // nothing was computed
}
