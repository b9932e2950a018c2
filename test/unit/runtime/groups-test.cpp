// Matmuls of groups of rows on the host: values, and ends that no compiled program writes.
#include "runtime/device/host/Floats16.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace shale::rt;

namespace {

constexpr float kGuard = 12345;

/// Small whole numbers, whose sums are exact in every order and type.
std::vector<float> draw(std::mt19937 &random, int64_t count) {
  std::vector<float> values(count);
  for (float &value : values)
    value = float(int64_t(random() % 5) - 2);
  return values;
}

std::vector<uint16_t> narrowed(const std::vector<float> &values) {
  std::vector<uint16_t> bits(values.size());
  narrow(Dtype::BF16, values.data(), bits.data(), int64_t(values.size()));
  return bits;
}

/// A matmul of groups, and its result by the definition.
struct Case {
  int64_t rows, m, n, k; // of one group with all rows
  bool ofWeights;        // the gradient of the matrices
  bool transposeB = false;
  std::vector<int64_t> ends;

  int64_t groups() const { return int64_t(ends.size()); }
  int64_t results() const { return ofWeights ? groups() * m * n : m * n; }

  std::vector<float> expected(const std::vector<float> &a, const std::vector<float> &b) const {
    std::vector<float> c(results());
    for (int64_t row = 0; row < rows; ++row) {
      int64_t group = std::upper_bound(ends.begin(), ends.end(), row) - ends.begin();
      if (group == groups())
        continue;
      for (int64_t j = 0; j < n; ++j) {
        if (ofWeights) {
          for (int64_t i = 0; i < m; ++i)
            c[(group * m + i) * n + j] += a[row * m + i] * b[row * n + j];
          continue;
        }
        for (int64_t i = 0; i < k; ++i)
          c[row * n + j] +=
              a[row * k + i] * b[group * k * n + (transposeB ? j * k + i : i * n + j)];
      }
    }
    return c;
  }
};

/// Returns what the host computes, with a guard after it.
std::vector<float> computed(const Case &test, const std::vector<float> &a,
                            const std::vector<float> &b, bool narrow, bool wide) {
  std::vector<float> c(test.results() + 64, kGuard);
  std::vector<uint16_t> a16 = narrowed(a), b16 = narrowed(b);
  std::vector<int32_t> short32(test.ends.begin(), test.ends.end());
  Matmul matmul{};
  matmul.transposeA = test.ofWeights, matmul.transposeB = test.transposeB;
  matmul.m = test.m, matmul.n = test.n, matmul.k = test.k;
  matmul.alpha = 1;
  matmul.a = narrow ? static_cast<const void *>(a16.data()) : a.data();
  matmul.b = narrow ? static_cast<const void *>(b16.data()) : b.data();
  matmul.lda = test.ofWeights ? test.m : test.k;
  matmul.ldb = test.transposeB ? test.k : test.n;
  matmul.c = c.data(), matmul.ldc = test.n;
  matmul.type = narrow ? Dtype::BF16 : Dtype::F32;
  matmul.groups = {wide ? static_cast<const void *>(test.ends.data()) : short32.data(), wide,
                   test.groups()};
  multiplyGroups(matmul);
  return c;
}

Case drawn(std::mt19937 &random, bool ofWeights) {
  auto size = [&](int64_t most) { return int64_t(1 + random() % most); };
  int64_t rows = size(40);
  Case test{rows,      ofWeights ? size(20) : rows, size(20), ofWeights ? rows : size(20),
            ofWeights, !ofWeights && random() % 2,  {}};
  for (int64_t group = size(6); group > 0; --group)
    test.ends.push_back(int64_t(random() % (rows + 1)));
  std::sort(test.ends.begin(), test.ends.end());
  return test;
}

} // namespace

TEST(Groups, AreMultipliedWithTheirMatrices) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    Case test = drawn(random, round % 2);
    std::vector<float> a = draw(random, test.m * test.k),
                       b = draw(random, test.n * test.k * (test.ofWeights ? 1 : test.groups()));
    std::vector<float> expected = test.expected(a, b);
    for (bool narrow : {false, true})
      for (bool wide : {false, true}) {
        std::vector<float> c = computed(test, a, b, narrow, wide);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), c.begin())) << round;
        ASSERT_EQ(std::count(c.begin() + test.results(), c.end(), kGuard), 64) << round;
      }
  }
}

// Ends that decrease, are negative or beyond the rows: undefined values, but no other memory.
TEST(Groups, WithBadEndsStayInTheirBuffers) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Case test = drawn(random, round % 2);
    for (int64_t &end : test.ends)
      end = int64_t(random()) - (int64_t(1) << 31);
    std::vector<float> a = draw(random, test.m * test.k),
                       b = draw(random, test.n * test.k * (test.ofWeights ? 1 : test.groups()));
    std::vector<float> c = computed(test, a, b, round % 3 == 0, true);
    ASSERT_EQ(std::count(c.begin() + test.results(), c.end(), kGuard), 64) << round;
    ASSERT_EQ(std::count(c.begin(), c.begin() + test.results(), kGuard), 0) << round;
  }
}
