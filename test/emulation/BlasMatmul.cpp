#include "BlasMatmul.h"

#include <algorithm>
#include <vector>

namespace {

constexpr int64_t kRows = 4, kColumns = 16;
typedef float Lanes __attribute__((vector_size(32)));

/// Adds the matmul of a panel of A (k x kRows) and one of B (k x kColumns) to C.
__attribute__((target_clones("fma", "default"))) void
addPanels(int64_t k, const float *a, const float *b, float (&c)[kRows][kColumns]) {
  Lanes sums[kRows][2] = {};
  for (int64_t l = 0; l < k; ++l, a += kRows, b += kColumns) {
    Lanes left, right;
    __builtin_memcpy(&left, b, sizeof(left));
    __builtin_memcpy(&right, b + kColumns / 2, sizeof(right));
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) { // in registers, once unrolled
      sums[i][0] += a[i] * left;
      sums[i][1] += a[i] * right;
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int64_t j = 0; j < kColumns; ++j)
      c[i][j] += sums[i][j / 8][j % 8];
}

} // namespace

void shale::stub::multiply(int64_t m, int64_t n, int64_t k, int parts, const float *a,
                           const float *b, float *c) {
  thread_local std::vector<float> left, right;
  int64_t rowPanels = (m + kRows - 1) / kRows, columnPanels = (n + kColumns - 1) / kColumns;
  left.resize(rowPanels * kRows * k);
  right.resize(columnPanels * kColumns * k);
  // Panels have a fixed size. Elements beyond the edge of a matrix are 0.
  for (int64_t panel = 0; panel < rowPanels; ++panel)
    for (int64_t i = 0; i < kRows; ++i) {
      float *to = &left[panel * k * kRows + i];
      const float *from = a + (panel * kRows + i) * k;
      bool inside = panel * kRows + i < m;
      for (int64_t l = 0; l < k; ++l)
        to[l * kRows] = inside ? from[l] : 0;
    }
  for (int64_t panel = 0; panel < columnPanels; ++panel) {
    int64_t inside = std::min(kColumns, n - panel * kColumns);
    for (int64_t l = 0; l < k; ++l) {
      float *to = &right[(panel * k + l) * kColumns];
      const float *from = b + l * n + panel * kColumns;
      if (inside == kColumns) // of a known size, this needs no call
        std::copy_n(from, kColumns, to);
      else
        std::fill(std::copy_n(from, inside, to), to + kColumns, 0.0f);
    }
  }
  for (int64_t column = 0; column < columnPanels; ++column)
    for (int64_t row = 0; row < rowPanels; ++row) {
      float block[kRows][kColumns] = {};
      for (int part = 0; part < parts; ++part) {
        int64_t begin = k * part / parts, end = k * (part + 1) / parts;
        addPanels(end - begin, &left[(row * k + begin) * kRows],
                  &right[(column * k + begin) * kColumns], block);
      }
      for (int64_t i = row * kRows; i < std::min(m, (row + 1) * kRows); ++i)
        std::copy_n(block[i % kRows], std::min(kColumns, n - column * kColumns),
                    c + i * n + column * kColumns);
    }
}

void shale::stub::multiplyInParts(int64_t m, int64_t n, int64_t k, int parts, const float *a,
                                  const float *b, float *c, float (*round)(float)) {
  std::vector<float> left, sums(m * n);
  std::fill_n(c, m * n, 0.0f);
  for (int part = 0; part < parts; ++part) {
    int64_t begin = k * part / parts, end = k * (part + 1) / parts;
    left.clear();
    for (int64_t row = 0; row < m; ++row)
      left.insert(left.end(), a + row * k + begin, a + row * k + end);
    multiply(m, n, end - begin, 1, left.data(), b + begin * n, sums.data());
    for (int64_t j = 0; j < m * n; ++j)
      c[j] += round(sums[j]);
  }
}
