// Offsets of buffers with lifetimes, and the library's memory for a matmul.
#include "lib/Analysis/Arena.h"
#include "lib/Target/CPU/Footprint.h"
#include "shale/Runtime.h"

#include <gtest/gtest.h>
#include <random>

using namespace shale;

namespace {

constexpr int64_t kAlignment = 64;

/// Checks that buffers that are live at once do not overlap. Returns the layout.
ArenaLayout place(const std::vector<Lifetime> &lifetimes) {
  ArenaLayout layout = layOutArena(lifetimes, kAlignment);
  EXPECT_EQ(layout.offsets.size(), lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % kAlignment, 0);
    EXPECT_GE(layout.offsets[i], 0);
    EXPECT_LE(layout.offsets[i] + lifetimes[i].bytes, layout.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool meet = lifetimes[i].begin <= lifetimes[j].end && lifetimes[j].begin <= lifetimes[i].end;
      bool apart = layout.offsets[i] + lifetimes[i].bytes <= layout.offsets[j] ||
                   layout.offsets[j] + lifetimes[j].bytes <= layout.offsets[i];
      EXPECT_TRUE(!meet || apart || lifetimes[i].bytes == 0 || lifetimes[j].bytes == 0)
          << i << " and " << j;
    }
  }
  return layout;
}

TEST(Arena, Nothing) {
  EXPECT_EQ(place({}).bytes, 0);
  EXPECT_EQ(maxLiveBytes({}, kAlignment), 0);
}

TEST(Arena, OneAfterAnotherShareBytes) {
  EXPECT_EQ(place({{100, 0, 1}, {100, 2, 3}, {128, 4, 9}}).bytes, 128);
}

TEST(Arena, WhatMeetsAtOnePositionIsApart) {
  // A buffer whose last use is where another begins is still read there.
  EXPECT_EQ(place({{64, 0, 2}, {64, 2, 4}}).bytes, 128);
}

TEST(Arena, LiveBytesAreRoundedAndNameTheirPosition) {
  int64_t at = -1;
  EXPECT_EQ(maxLiveBytes({{1, 0, 9}, {65, 4, 6}, {64, 6, 7}}, kAlignment, &at), 64 + 128 + 64);
  EXPECT_EQ(at, 6);
}

TEST(Arena, ForwardAndBackwardNestWithoutGaps) {
  // Activations of a chain, which are freed in reverse order.
  std::vector<Lifetime> lifetimes;
  for (int64_t i = 0; i < 40; ++i)
    lifetimes.push_back({64 * (1 + i % 7), i, 100 - i});
  EXPECT_EQ(place(lifetimes).bytes, maxLiveBytes(lifetimes, kAlignment));
}

TEST(Arena, BuffersOfNoBytes) { EXPECT_EQ(place({{0, 0, 5}, {64, 0, 5}, {0, 2, 3}}).bytes, 64); }

TEST(Arena, BytesBeyond32Bits) {
  int64_t large = int64_t(3) << 32;
  EXPECT_EQ(place({{large, 0, 1}, {large, 1, 2}, {large, 2, 3}}).bytes, 2 * large);
}

TEST(Arena, IsTheSameEveryTime) {
  std::vector<Lifetime> lifetimes(50, {64, 0, 3});
  for (size_t i = 0; i < lifetimes.size(); ++i)
    lifetimes[i].end += i % 3;
  EXPECT_EQ(place(lifetimes).offsets, place(lifetimes).offsets);
}

/// A training step in small: activations that live from forward to backward, a
/// unit gathered a block, temporaries, all of random sizes. (The bar of 1.05 is
/// held by real programs: test/e2e/plan/arena.py.)
TEST(Arena, StepsOfRandomSizesAreTight) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> lifetimes;
    int64_t blocks = 4 + random() % 12, positions = blocks * 10;
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t unit = 64 * (20 + random() % 40);
      lifetimes.push_back({unit, b * 10, b * 10 + 12});
      lifetimes.push_back({unit, 2 * positions - b * 10 - 12, 2 * positions - b * 10});
      for (int64_t i = 0; i < 8; ++i) {
        int64_t bytes = 64 * (1 + random() % 10), from = b * 10 + i, back = 2 * positions - from;
        lifetimes.push_back({bytes, from, i % 2 ? back : from + 1 + int64_t(random() % 3)});
        lifetimes.push_back({bytes, back, back + 1});
      }
    }
    EXPECT_LE(place(lifetimes).bytes, 1.1 * maxLiveBytes(lifetimes, kAlignment))
        << "round " << round;
  }
}

TEST(Arena, RandomLifetimesAreNeverWrong) {
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 120; ++i) {
      int64_t begin = random() % 100;
      lifetimes.push_back({int64_t(random() % 5000), begin, begin + int64_t(random() % 40)});
    }
    int64_t least = maxLiveBytes(lifetimes, kAlignment);
    EXPECT_GE(place(lifetimes).bytes, least);
    EXPECT_LE(place(lifetimes).bytes, 1.5 * least);
  }
}

TEST(Footprint, AMatmulOf16BitFloatsIsWidenedInPanels) {
  int64_t panel = SHALE_GEMM_PANEL, depth = SHALE_GEMM_BLOCK;
  EXPECT_EQ(cpu::matmulPanels(1 << 20, 1 << 20, 1 << 20, false), 4 * 2 * panel * depth);
  EXPECT_EQ(cpu::matmulPanels(1 << 20, 1 << 20, 1 << 20, true),
            4 * (2 * panel * depth + panel * panel));
  EXPECT_EQ(cpu::matmulPanels(3, 5, 7, true), 4 * (32 + 48 + 16));
}

TEST(Footprint, AMatmulTakesNoMoreThanItsPiece) {
  int64_t most = cpu::matmulWorkspace(1 << 20, 1 << 20, 1 << 20);
  EXPECT_EQ(most,
            4 * (SHALE_GEMM_COLUMNS * SHALE_GEMM_BLOCK + SHALE_GEMM_BLOCK * SHALE_GEMM_BLOCK) +
                8192);
  EXPECT_EQ(cpu::matmulWorkspace(8, 48, 128), 4 * (48 * 128 + 128 * 8) + 8192);
  for (int64_t m : {1, 7, 100, 4096})
    for (int64_t n : {1, 47, 2000, 50257})
      for (int64_t k : {1, 64, 500, 4096}) {
        EXPECT_LE(cpu::matmulWorkspace(m, n, k), most);
        EXPECT_LE(cpu::matmulWorkspace(m, n, k), cpu::matmulWorkspace(m + 1, n + 1, k + 1));
      }
}

} // namespace
