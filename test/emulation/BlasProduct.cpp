#include "BlasProduct.h"

#include <algorithm>
#include <vector>

namespace {

constexpr int64_t kRows = 4, kColumns = 16;
typedef float Lanes __attribute__((vector_size(32)));

/// Adds the product of a panel of A (k x kRows) and one of B (k x kColumns) to C.
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
  left.assign(rowPanels * kRows * k, 0);
  right.assign(columnPanels * kColumns * k, 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      left[(i / kRows * k + l) * kRows + i % kRows] = a[i * k + l];
  for (int64_t panel = 0; panel < columnPanels; ++panel)
    for (int64_t l = 0; l < k; ++l)
      std::copy_n(b + l * n + panel * kColumns, std::min(kColumns, n - panel * kColumns),
                  &right[(panel * k + l) * kColumns]);
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
