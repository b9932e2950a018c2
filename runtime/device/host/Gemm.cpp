// Matrix products by oneDNN's sgemm, cut so that its workspace is known.
//
// oneDNN 2.6 packs both operands anew in every call, into buffers that it
// allocates (src/cpu/x64/gemm/gemm_driver.cpp: get_m_padd, get_k_padd,
// get_n_padd; AVX-512 blocking of gemm_info.cpp: bm 9984, bn 384, bk 384).
// On one thread a call of at most SHALE_GEMM_COLUMNS columns takes
//   4 * (SHALE_GEMM_COLUMNS * 384 + 384 * 384) bytes and two pages
// whatever the shape (productWorkspace in lib/Analysis/Footprint.h). Left to
// itself it takes up to 16 MB a thread, and the heap keeps twice that. Packing
// again for each piece costs 1 / SHALE_GEMM_COLUMNS of the product: nothing
// that can be measured.
#include "runtime/core/Error.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

namespace shale::rt {

namespace {

/// Columns of a piece are multiples of the kernel's 48, rows of its 8.
constexpr int64_t kColumnUnit = 48, kRowUnit = 8;
static_assert(SHALE_GEMM_COLUMNS % kColumnUnit == 0, "whole kernels");
/// Below these operations threads are not worth waking.
constexpr int64_t kSmallProduct = 1 << 18;

void call(const Product &p, int64_t row, int64_t rows, int64_t column,
          int64_t columns) {
  if (rows <= 0 || columns <= 0)
    return;
  const float *a = p.a + (p.transposeA ? row : row * p.lda);
  const float *b = p.b + (p.transposeB ? column * p.ldb : column);
  dnnl_status_t status = dnnl_sgemm(
      p.transposeA ? 'T' : 'N', p.transposeB ? 'T' : 'N', rows, columns, p.k,
      p.alpha, a, p.lda, b, p.ldb, p.beta, p.c + row * p.ldc + column, p.ldc);
  if (status != dnnl_success)
    die(SHALE_EXIT_INTERNAL,
        format("sgemm of %lld x %lld x %lld (lda %lld, ldb %lld, ldc %lld) "
               "failed with status %d",
               (long long)rows, (long long)columns, (long long)p.k,
               (long long)p.lda, (long long)p.ldb, (long long)p.ldc,
               (int)status));
}

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Part `index` of `parts` of [0, size), cut at multiples of `unit`.
void part(int64_t size, int64_t unit, int64_t parts, int64_t index,
          int64_t &begin, int64_t &count) {
  int64_t units = divideUp(size, unit);
  begin = std::min(units * index / parts * unit, size);
  count = std::min(units * (index + 1) / parts * unit, size) - begin;
}

/// One thread's rectangle, in pieces of few columns.
void piecewise(const Product &p, int64_t row, int64_t rows, int64_t column,
               int64_t columns) {
  int64_t pieces = divideUp(columns, SHALE_GEMM_COLUMNS);
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t begin, count;
    part(columns, kColumnUnit, pieces, i, begin, count);
    call(p, row, rows, column + begin, count);
  }
}

/// Row parts of a grid of `threads` with the least to pack a thread.
int64_t rowParts(const Product &p, int64_t threads) {
  int64_t best = 1, least = INT64_MAX;
  for (int64_t parts = 1; parts <= threads; ++parts) {
    if (threads % parts)
      continue;
    int64_t rows = divideUp(divideUp(p.m, kRowUnit), parts) * kRowUnit;
    int64_t columns =
        divideUp(divideUp(p.n, kColumnUnit), threads / parts) * kColumnUnit;
    // What takes longest is the product; of equals the one that packs less.
    int64_t cost = rows * columns * 16 + rows + columns;
    if (cost < least) {
      least = cost;
      best = parts;
    }
  }
  return best;
}

} // namespace

void multiply(const Product &p) {
  if (p.m == 0 || p.n == 0)
    return;
  int64_t threads = omp_get_max_threads();
  if (threads == 1 || omp_in_parallel() ||
      p.m * p.n < kSmallProduct / std::max<int64_t>(p.k, 1))
    return multiplyOnThread(p);
#pragma omp parallel
  {
    // As many as there are: fewer may come than were asked for.
    int64_t parts = omp_get_num_threads(), inRows = rowParts(p, parts),
            t = omp_get_thread_num();
    int64_t row, rows, column, columns;
    part(p.m, kRowUnit, inRows, t % inRows, row, rows);
    part(p.n, kColumnUnit, parts / inRows, t / inRows, column, columns);
    piecewise(p, row, rows, column, columns);
  }
}

void multiplyOnThread(const Product &p) {
  if (p.m == 0 || p.n == 0)
    return;
  // oneDNN runs on one thread within a parallel region. A kernel that was
  // launched as one block runs outside of any.
  int threads = omp_get_max_threads();
  bool narrow = threads > 1 && !omp_in_parallel();
  if (narrow)
    omp_set_num_threads(1);
  piecewise(p, 0, p.m, 0, p.n);
  if (narrow)
    omp_set_num_threads(threads);
}

} // namespace shale::rt
