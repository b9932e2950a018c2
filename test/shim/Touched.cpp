// Records the bytes that each call of a compiled program touches. It is linked before the runtime
// (ld --wrap), with a program whose kernels report their loads and stores.
//
// LLVM's address sanitizer pass inserts the reports: calls of __touch_load4(address),
// __touch_storeN(address, bytes) and so on before every access. The accesses of runtime calls
// (matmuls, copies, collectives) follow from their arguments.
//
// SHALE_TOUCHED names the output; a process writes SHALE_TOUCHED.PID. A call is a line of words,
// its name and its addresses in hexadecimal:
//   launch KERNEL INPUT.. to OUTPUT..
//   gemm A B to C | copy SOURCE to TARGET | zero to TARGET | coordinate to TARGET
//   all_gather SITE SEND to RECV (and reduce_scatter, all_reduce) | wait SITE
//   transfer INDEX SOURCE to TARGET | transfer_wait INDEX
//   axis AXIS COORDINATE: this rank's coordinate, when a function reads it
// The lines after a call list the ranges that it touched: "  HOW BEGIN END". HOW is a sum of 1
// (read before the call wrote it), 2 (written) and 4 (read after the call wrote it). The accesses
// of a collective or copy are listed after its start.
#include "shale/Runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unistd.h>

namespace {

constexpr uintptr_t kPage = 4096;
enum { kRead = 1, kWritten = 2, kReadAfter = 4 };

struct Page {
  unsigned char how[kPage];
};
std::map<uintptr_t, Page> pages; // touched by the call, by number
std::map<uintptr_t, Page>::iterator last = pages.end();
bool inCall;

FILE *output() {
  static FILE *file = [] {
    const char *name = getenv("SHALE_TOUCHED");
    std::string path = std::string(name ? name : "touched") + "." + std::to_string(getpid());
    FILE *opened = fopen(path.c_str(), "w");
    if (!opened)
      abort();
    return opened;
  }();
  return file;
}

void touch(const void *address, size_t bytes, bool write) {
  if (!inCall)
    return;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(address), end = at + bytes; at < end; ++at) {
    if (last == pages.end() || last->first != at / kPage)
      last = pages.try_emplace(at / kPage).first;
    unsigned char &how = last->second.how[at % kPage];
    how |= write ? kWritten : how & kWritten ? kReadAfter : kRead;
  }
}

void reads(const void *address, size_t bytes) { touch(address, bytes, false); }
void writes(const void *address, size_t bytes) { touch(address, bytes, true); }

/// Writes the ranges that the call touched.
void flush() {
  uintptr_t begin = 0, end = 0;
  int how = 0;
  auto put = [&] {
    if (how)
      fprintf(output(), "  %d %lx %lx\n", how, (unsigned long)begin, (unsigned long)end);
  };
  for (const auto &[number, page] : pages)
    for (uintptr_t i = 0; i < kPage; ++i) {
      uintptr_t at = number * kPage + i;
      if (page.how[i] == how && at == end) {
        ++end;
        continue;
      }
      put();
      begin = at, end = at + 1, how = page.how[i];
    }
  put();
  fflush(output()); // the program ends without it
  pages.clear();
  last = pages.end();
}

/// A call of compiled code: writes its line, runs `body`, and writes the ranges that it touched.
template <typename Body> void call(const std::string &line, Body body) {
  fprintf(output(), "%s\n", line.c_str());
  inCall = true;
  body();
  inCall = false;
  flush();
}

std::string hex(const void *address) {
  char text[32];
  snprintf(text, sizeof(text), " %lx", (unsigned long)reinterpret_cast<uintptr_t>(address));
  return text;
}

int64_t sizeOfType(int32_t type) {
  static const int64_t sizes[] = {4, 8, 2, 2, 8, 4, 1};
  return sizes[type];
}

/// The rows of a matrix; transposed it has `columns` rows.
template <typename Note>
void eachRow(const void *matrix, bool transposed, int64_t rows, int64_t columns, int64_t ld,
             int64_t size, Note note) {
  if (transposed)
    std::swap(rows, columns);
  for (int64_t row = 0; row < rows; ++row)
    note(static_cast<const char *>(matrix) + row * ld * size, columns * size);
}

void start(const char *kind, int32_t site, const void *send, int64_t sent, const void *recv,
           int64_t received) {
  call(kind + (" " + std::to_string(site)) + hex(send) + " to" + hex(recv), [&] {
    reads(send, sent);
    writes(recv, received);
  });
}

int64_t ranksOf(int32_t site) {
  int32_t axis = shale_program.sites[site].axis, joint = axis - shale_program.axis_count;
  return joint < 0 ? shale_program.axes[axis].size : shale_program.joint_axes[joint].size;
}

} // namespace

extern "C" {

// ---- the kernels' reports

#define TOUCH(SIZE)                                                                                \
  void __touch_load##SIZE(const void *address) { reads(address, SIZE); }                           \
  void __touch_store##SIZE(const void *address) { writes(address, SIZE); }
TOUCH(1)
TOUCH(2) TOUCH(4) TOUCH(8) TOUCH(16) void __touch_loadN(const void *address, size_t bytes) {
  reads(address, bytes);
}
void __touch_storeN(const void *address, size_t bytes) { writes(address, bytes); }
void *__touch_memcpy(void *target, const void *source, size_t bytes) {
  reads(source, bytes);
  writes(target, bytes);
  return memcpy(target, source, bytes);
}
void *__touch_memmove(void *target, const void *source, size_t bytes) {
  reads(source, bytes);
  writes(target, bytes);
  return memmove(target, source, bytes);
}
void *__touch_memset(void *target, int byte, size_t bytes) {
  writes(target, bytes);
  return memset(target, byte, bytes);
}

// ---- the calls of compiled code

void __real_shale_launch(ShaleRank *, const ShaleLaunch *);
void __wrap_shale_launch(ShaleRank *rank, const ShaleLaunch *launch) {
  std::string line = std::string("launch ") + launch->name;
  for (int32_t i = 0; i < launch->inputs + launch->outputs; ++i)
    line += (i == launch->inputs ? " to" : "") + hex(launch->args[i]);
  call(line, [&] { __real_shale_launch(rank, launch); });
}

void __real_shale_gemm(ShaleRank *, const ShaleGemm *);
void __wrap_shale_gemm(ShaleRank *rank, const ShaleGemm *g) {
  call("gemm" + hex(g->a) + hex(g->b) + " to" + hex(g->c), [&] {
    int64_t in = sizeOfType(g->type), out = sizeOfType(g->result_type), m = g->m, n = g->n,
            k = g->k;
    for (int64_t i = 0; i < g->batch; ++i) {
      eachRow(static_cast<const char *>(g->a) + i * m * k * in, g->transpose_a, m, k, g->lda, in,
              reads);
      eachRow(static_cast<const char *>(g->b) + i * k * n * in, g->transpose_b, k, n, g->ldb, in,
              reads);
    }
    for (int64_t i = 0; i < g->batch; ++i) {
      const char *result = static_cast<const char *>(g->c) + i * m * n * out;
      if (g->accumulate)
        eachRow(result, false, m, n, g->ldc, out, reads);
      eachRow(result, false, m, n, g->ldc, out, writes);
    }
    __real_shale_gemm(rank, g);
  });
}

void __real_shale_grouped_gemm(ShaleRank *, const ShaleGemm *, const ShaleGroups *);
void __wrap_shale_grouped_gemm(ShaleRank *rank, const ShaleGemm *g, const ShaleGroups *groups) {
  call("gemm" + hex(g->a) + hex(g->b) + hex(groups->ends) + " to" + hex(g->c), [&] {
    int64_t in = sizeOfType(g->type), out = sizeOfType(g->result_type), count = groups->count;
    reads(g->a, g->m * g->k * in);
    reads(g->b, g->k * g->n * in * (g->transpose_a ? 1 : count));
    reads(groups->ends, count * (groups->wide ? 8 : 4));
    writes(g->c, g->m * g->n * out * (g->transpose_a ? count : 1));
    __real_shale_grouped_gemm(rank, g, groups);
  });
}

void __real_shale_gemm_thread(int32_t, int32_t, int64_t, int64_t, int64_t, float, const float *,
                              int64_t, const float *, int64_t, float, float *, int64_t);
void __wrap_shale_gemm_thread(int32_t transpose_a, int32_t transpose_b, int64_t m, int64_t n,
                              int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                              int64_t ldb, float beta, float *c, int64_t ldc) {
  eachRow(a, transpose_a, m, k, lda, 4, reads);
  eachRow(b, transpose_b, k, n, ldb, 4, reads);
  if (beta != 0)
    eachRow(c, false, m, n, ldc, 4, reads);
  eachRow(c, false, m, n, ldc, 4, writes);
  __real_shale_gemm_thread(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void __real_shale_copy(ShaleRank *, void *, const void *, int64_t);
void __wrap_shale_copy(ShaleRank *rank, void *target, const void *source, int64_t bytes) {
  call("copy" + hex(source) + " to" + hex(target), [&] {
    reads(source, bytes);
    writes(target, bytes);
    __real_shale_copy(rank, target, source, bytes);
  });
}

void __real_shale_zero(ShaleRank *, void *, int64_t);
void __wrap_shale_zero(ShaleRank *rank, void *target, int64_t bytes) {
  call("zero to" + hex(target), [&] {
    writes(target, bytes);
    __real_shale_zero(rank, target, bytes);
  });
}

int64_t __real_shale_coordinate(ShaleRank *, int32_t);
int64_t __wrap_shale_coordinate(ShaleRank *rank, int32_t axis) {
  int64_t coordinate = __real_shale_coordinate(rank, axis);
  fprintf(output(), "axis %d %ld\n", axis, (long)coordinate);
  return coordinate;
}

void __real_shale_store_coordinate(ShaleRank *, int32_t, int64_t *);
void __wrap_shale_store_coordinate(ShaleRank *rank, int32_t axis, int64_t *target) {
  call("coordinate to" + hex(target), [&] {
    writes(target, sizeof(*target));
    __real_shale_store_coordinate(rank, axis, target);
  });
}

void __real_shale_start(ShaleRank *, int32_t, const void *, void *, int64_t, int32_t);
void __wrap_shale_start(ShaleRank *rank, int32_t site, const void *send, void *recv, int64_t count,
                        int32_t type) {
  int64_t bytes = count * sizeOfType(type);
  switch (shale_program.sites[site].kind) {
  case SHALE_ALL_GATHER:
    start("all_gather", site, send, bytes, recv, bytes * ranksOf(site));
    break;
  case SHALE_REDUCE_SCATTER:
    start("reduce_scatter", site, send, bytes * ranksOf(site), recv, bytes);
    break;
  case SHALE_ALL_REDUCE:
    start("all_reduce", site, send, bytes, recv, bytes);
    break;
  case SHALE_ALL_TO_ALL:
    start("all_to_all", site, send, bytes * ranksOf(site), recv, bytes * ranksOf(site));
    break;
  default:
    abort();
  }
  __real_shale_start(rank, site, send, recv, count, type);
}

void __real_shale_wait(ShaleRank *, int32_t);
void __wrap_shale_wait(ShaleRank *rank, int32_t site) {
  fprintf(output(), "wait %d\n", site);
  __real_shale_wait(rank, site);
}

void __real_shale_transfer_start(ShaleRank *, int32_t, void *, const void *, int64_t);
void __wrap_shale_transfer_start(ShaleRank *rank, int32_t index, void *target, const void *source,
                                 int64_t bytes) {
  start("transfer", index, source, bytes, target, bytes);
  __real_shale_transfer_start(rank, index, target, source, bytes);
}

void __real_shale_transfer_wait(ShaleRank *, int32_t);
void __wrap_shale_transfer_wait(ShaleRank *rank, int32_t index) {
  fprintf(output(), "transfer_wait %d\n", index);
  __real_shale_transfer_wait(rank, index);
}

} // extern "C"
