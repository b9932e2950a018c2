// Matmuls by oneDNN's sgemm, cut so that its workspace is bounded.
//
// oneDNN 2.6 packs both operands in every call, into buffers that it
// allocates (src/cpu/x64/gemm/gemm_driver.cpp: get_m_padd, get_k_padd,
// get_n_padd; AVX-512 blocking of gemm_info.cpp: bm 9984, bn 384, bk 384).
// On one thread a call of at most SHALE_GEMM_COLUMNS columns takes
//   4 * (SHALE_GEMM_COLUMNS * 384 + 384 * 384) bytes and two pages
// for any shape (matmulWorkspace in lib/Target/CPU/Footprint.h). An uncut
// call takes up to 16 MB per thread, and the heap keeps twice that. Packing
// again for each piece costs 1 / SHALE_GEMM_COLUMNS of the matmul, too little to
// measure. Pieces depend on the shape, not on the number of threads.
//
// 16-bit floats are widened one piece at a time in the thread's scratch buffer, so
// that no whole f32 copy of an operand or a result is in memory: SHALE_GEMM_PANEL
// rows and columns, SHALE_GEMM_BLOCK deep (matmulPanels in
// lib/Target/CPU/Footprint.h). The cuts of the depth depend on k alone, so that the
// bits do not depend on the number of threads.
//
// 8-bit floats are widened in the same way, and alpha has their scales.
//
// The C library keeps just one such buffer per thread only if it does not cache the
// memory that it cuts off to align them (runtime/program/launch/Launcher.h).
#include "runtime/core/Error.h"
#include "runtime/core/Threads.h"
#include "runtime/device/host/Floats16.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.h>

namespace shale::rt {

namespace {

/// Cuts between pieces are at multiples of 48 columns and 8 rows, the tile of oneDNN's kernel.
constexpr int64_t kColumnUnit = 48, kRowUnit = 8;
static_assert(SHALE_GEMM_COLUMNS % kColumnUnit == 0, "whole kernels");
/// Matmuls with fewer multiply-adds run on one thread: waking others does not pay off.
constexpr int64_t kSmallMatmul = 1 << 18;
/// A matmul is cut into at most `pieces` while each has at least `least` multiply-adds: packing
/// costs relatively more in small pieces.
constexpr struct {
  int64_t pieces;
  double least;
} kPieces[] = {{2, 0x1p22}, {8, 0x1p25}, {64, 0x1p31}};

void call(const Matmul &p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (rows <= 0 || columns <= 0)
    return;
  const float *a = static_cast<const float *>(p.a) + (p.transposeA ? row : row * p.lda);
  const float *b = static_cast<const float *>(p.b) + (p.transposeB ? column * p.ldb : column);
  dnnl_status_t status =
      dnnl_sgemm(p.transposeA ? 'T' : 'N', p.transposeB ? 'T' : 'N', rows, columns, p.k, p.alpha, a,
                 p.lda, b, p.ldb, p.beta, static_cast<float *>(p.c) + row * p.ldc + column, p.ldc);
  if (status != dnnl_success)
    die(SHALE_EXIT_INTERNAL,
        format("sgemm of %lld x %lld x %lld (lda %lld, ldb %lld, ldc %lld) "
               "failed with status %d",
               (long long)rows, (long long)columns, (long long)p.k, (long long)p.lda,
               (long long)p.ldb, (long long)p.ldc, (int)status));
}

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Part `index` of `parts` of [0, size), cut at multiples of `unit`.
void part(int64_t size, int64_t unit, int64_t parts, int64_t index, int64_t &begin,
          int64_t &count) {
  int64_t units = divideUp(size, unit);
  begin = std::min(units * index / parts * unit, size);
  count = std::min(units * (index + 1) / parts * unit, size) - begin;
}

int64_t alignUp(int64_t elements) { return divideUp(elements, 16) * 16; }

/// Returns the values of an 8-bit float type by their bits.
const float *values8(Dtype type) {
  struct Values {
    explicit Values(Dtype type) {
      for (int bits = 0; bits < 256; ++bits)
        of[bits] = f8ToFloat(type, static_cast<uint8_t>(bits));
    }
    float of[256];
  };
  static const Values fine(Dtype::F8E4M3), wide(Dtype::F8E5M2);
  return type == Dtype::F8E4M3 ? fine.of : wide.of;
}

/// Widens `lines` lines of `count` floats of 16 or 8 bits each into a dense f32 panel.
void widenLines(Dtype type, const void *source, int64_t at, int64_t stride, int64_t lines,
                int64_t count, float *target) {
  if (is8BitFloat(type)) {
    const float *values = values8(type);
    const uint8_t *bits = static_cast<const uint8_t *>(source) + at;
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < count; ++j)
        target[i * count + j] = values[bits[i * stride + j]];
    return;
  }
  const uint16_t *from = static_cast<const uint16_t *>(source) + at;
  for (int64_t i = 0; i < lines; ++i)
    widen(type, from + i * stride, target + i * count, count);
}

/// Computes a rectangle of a matmul of floats of 16 or 8 bits on the calling thread.
void piecewiseWidened(const Matmul &p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  int64_t rowPieces = divideUp(rows, SHALE_GEMM_PANEL),
          columnPieces = divideUp(columns, SHALE_GEMM_PANEL),
          depth = std::min<int64_t>(p.k, SHALE_GEMM_BLOCK);
  int64_t mostRows = std::min<int64_t>(rows, SHALE_GEMM_PANEL),
          mostColumns = std::min<int64_t>(columns, SHALE_GEMM_PANEL);
  bool rounds = p.resultType != Dtype::F32;
  int64_t ofA = alignUp(mostRows * depth), ofB = alignUp(mostColumns * depth),
          ofC = rounds ? alignUp(mostRows * mostColumns) : 0;
  float *a = reinterpret_cast<float *>(
      threadScratch((ofA + ofB + ofC) * static_cast<int64_t>(sizeof(float))));
  float *b = a + ofA;
  for (int64_t i = 0; i < rowPieces; ++i)
    for (int64_t j = 0; j < columnPieces; ++j) {
      int64_t r, m, s, n;
      part(rows, kRowUnit, rowPieces, i, r, m);
      part(columns, kColumnUnit, columnPieces, j, s, n);
      r += row, s += column;
      Matmul piece = p;
      if (p.scaling)
        piece.alpha = p.alpha * *p.scaling.a * *p.scaling.b;
      piece.m = m, piece.n = n;
      piece.a = a, piece.b = b;
      piece.c = rounds ? b + ofB : static_cast<float *>(p.c) + r * p.ldc + s;
      piece.ldc = rounds ? n : p.ldc;
      for (int64_t at = 0; at < p.k; at += depth) {
        int64_t k = std::min(depth, p.k - at);
        piece.k = k, piece.beta = at == 0 ? p.beta : 1;
        piece.lda = p.transposeA ? m : k, piece.ldb = p.transposeB ? k : n;
        if (p.transposeA)
          widenLines(p.type, p.a, at * p.lda + r, p.lda, k, m, a);
        else
          widenLines(p.type, p.a, r * p.lda + at, p.lda, m, k, a);
        if (p.transposeB)
          widenLines(p.typeOfB(), p.b, s * p.ldb + at, p.ldb, n, k, b);
        else
          widenLines(p.typeOfB(), p.b, at * p.ldb + s, p.ldb, k, n, b);
        call(piece, 0, m, 0, n);
      }
      if (rounds)
        for (int64_t line = 0; line < m; ++line)
          narrow(p.resultType, b + ofB + line * n,
                 static_cast<uint16_t *>(p.c) + (r + line) * p.ldc + s, n);
    }
}

/// Computes a rectangle of a matmul on the calling thread, in pieces of at most SHALE_GEMM_COLUMNS
/// columns.
void piecewise(const Matmul &p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (rows <= 0 || columns <= 0)
    return;
  if (p.k == 0) { // oneDNN rejects it
    int64_t size = sizeOf(p.resultType);
    for (int64_t i = row; i < row + rows && p.beta == 0; ++i)
      std::memset(static_cast<char *>(p.c) + (i * p.ldc + column) * size, 0, columns * size);
    return;
  }
  if (p.type != Dtype::F32)
    return piecewiseWidened(p, row, rows, column, columns);
  int64_t pieces = divideUp(columns, SHALE_GEMM_COLUMNS);
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t begin, count;
    part(columns, kColumnUnit, pieces, i, begin, count);
    call(p, row, rows, column + begin, count);
  }
}

/// The grid of a matmul's pieces: `rows` x `columns`.
struct Grid {
  int64_t rows = 1, columns = 1;
};

/// Cuts a matmul into pieces that are distributed among threads. The grid depends on the matmul's
/// shape alone, because the order in which oneDNN adds depends on the shape of a call: its AVX2
/// kernels treat the rows after the last multiple of six differently. The number of pieces is a
/// multiple of a power of two, so that threads get equal shares. Returns the grid that packs the
/// fewest elements.
Grid gridOf(const Matmul &p) {
  double work = static_cast<double>(p.m) * p.n * p.k;
  int64_t wanted = 1;
  for (auto [most, least] : kPieces)
    while (wanted < most && work / (2 * wanted) >= least)
      wanted *= 2;
  Grid best;
  int64_t least = INT64_MAX, fewest = divideUp(p.n, SHALE_GEMM_COLUMNS);
  for (int64_t rows = 1; rows <= wanted; rows *= 2) {
    int64_t step = wanted / rows, columns = divideUp(fewest, step) * step;
    // Packed rows and columns, of k elements each.
    int64_t cost = rows * p.n + columns * p.m;
    if (cost < least) {
      least = cost;
      best = {rows, columns};
    }
  }
  return best;
}

/// Computes pieces [begin, end) of the grid, one after the other.
void multiplyPieces(const Matmul &p, const Grid &grid, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t row, rows, column, columns;
    part(p.m, kRowUnit, grid.rows, i % grid.rows, row, rows);
    part(p.n, kColumnUnit, grid.columns, i / grid.rows, column, columns);
    piecewise(p, row, rows, column, columns);
  }
}

} // namespace

void multiply(const Matmul &p) {
  if (p.m == 0 || p.n == 0)
    return;
  if (p.m * p.n < kSmallMatmul / std::max<int64_t>(p.k, 1))
    return multiplyOnThread(p);
  Grid grid = gridOf(p);
  int64_t pieces = grid.rows * grid.columns;
  if (hostThreads() == 1 || shale_in_parallel())
    return multiplyPieces(p, grid, 0, pieces);
  onThreads([&](int64_t thread, int64_t threads) {
    multiplyPieces(p, grid, pieces * thread / threads, pieces * (thread + 1) / threads);
  });
}

void multiplyOnThread(const Matmul &p) {
  if (p.m == 0 || p.n == 0)
    return;
  // oneDNN runs on one thread within a parallel region. A kernel that was
  // launched as one block runs outside of any.
  int threads = hostThreads();
  bool narrow = threads > 1 && !shale_in_parallel();
  if (narrow)
    setHostThreads(1);
  piecewise(p, 0, p.m, 0, p.n);
  if (narrow)
    setHostThreads(threads);
}

void multiplyBatch(const Matmul &matmul) {
  Matmul one = matmul;
  one.batch = 1;
  int64_t in = sizeOf(matmul.type), out = sizeOf(matmul.resultType);
  for (int64_t i = 0; i < matmul.batch; ++i) {
    one.a = static_cast<const char *>(matmul.a) + i * matmul.m * matmul.k * in;
    one.b = static_cast<const char *>(matmul.b) + i * matmul.k * matmul.n * in;
    one.c = static_cast<char *>(matmul.c) + i * matmul.m * matmul.n * out;
    multiply(one);
  }
}

void multiplyGroups(const Matmul &matmul) {
  Matmul one = matmul;
  one.groups = {};
  int64_t in = sizeOf(matmul.type), out = sizeOf(matmul.resultType);
  int64_t rows = matmul.transposeA ? matmul.k : matmul.m, begin = 0;
  for (int64_t group = 0; group < matmul.groups.count; ++group) {
    int64_t stated = matmul.groups.wide ? static_cast<const int64_t *>(matmul.groups.ends)[group]
                                        : static_cast<const int32_t *>(matmul.groups.ends)[group];
    int64_t end = std::clamp(stated, begin, rows);
    (matmul.transposeA ? one.k : one.m) = end - begin;
    one.a = static_cast<const char *>(matmul.a) + begin * matmul.lda * in;
    if (matmul.transposeA) {
      one.b = static_cast<const char *>(matmul.b) + begin * matmul.ldb * in;
      one.c = static_cast<char *>(matmul.c) + group * matmul.m * matmul.n * out;
    } else {
      one.b = static_cast<const char *>(matmul.b) + group * matmul.k * matmul.n * in;
      one.c = static_cast<char *>(matmul.c) + begin * matmul.ldc * out;
    }
    multiply(one);
    begin = end;
  }
  if (!matmul.transposeA)
    std::memset(static_cast<char *>(matmul.c) + begin * matmul.ldc * out, 0,
                (rows - begin) * matmul.ldc * out);
}

} // namespace shale::rt

extern "C" void shale_gemm_thread(int32_t transpose_a, int32_t transpose_b, int64_t m, int64_t n,
                                  int64_t k, float alpha, const float *a, int64_t lda,
                                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  shale::rt::multiplyOnThread(
      {transpose_a != 0, transpose_b != 0, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc});
}
