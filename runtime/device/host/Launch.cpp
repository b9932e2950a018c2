// Runs kernels on OpenMP threads; entry points for compiled code; the profile of
// SHALE_PROFILE.
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Trace.h"
#include "runtime/core/Watch.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <omp.h>
#include <sched.h>
#include <vector>

using namespace shale::rt;

namespace {

/// Times by name in a table of fixed size, so that a profiled run allocates as
/// little as any other.
struct Profile {
  struct Entry {
    char name[64];
    int64_t calls;
    double seconds;
  };
  bool on = std::getenv("SHALE_PROFILE") != nullptr;
  std::array<Entry, 1024> entries{};
  size_t used = 0;

  void add(const char *name, double seconds) {
    for (size_t i = 0; i < used; ++i)
      if (std::strncmp(entries[i].name, name, sizeof(entries[i].name) - 1) == 0) {
        ++entries[i].calls;
        entries[i].seconds += seconds;
        return;
      }
    if (used == entries.size())
      return;
    snprintf(entries[used].name, sizeof(entries[used].name), "%s", name);
    entries[used].calls = 1;
    entries[used++].seconds = seconds;
  }
};
Profile profile;

void launch(ShaleKernel kernel, void *const *args, int64_t rows, int64_t grain) {
  if (rows <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t blocks = (rows + grain - 1) / grain;
  if (blocks == 1 || omp_in_parallel()) {
    kernel(args, 0, rows);
    return;
  }
#pragma omp parallel
  {
    int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
    int64_t begin = blocks * t / threads * grain;
    int64_t end = std::min(blocks * (t + 1) / threads * grain, rows);
    if (begin < end)
      kernel(args, begin, end);
  }
}

} // namespace

namespace shale::rt {

bool profiling() { return profile.on; }

double profileNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void profileAdd(const char *name, double start) { profile.add(name, profileNow() - start); }

int hostThreads() { return omp_get_max_threads(); }

void setHostThreads(int threads) { omp_set_num_threads(threads); }

int availableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::string profileTable() {
  if (!profile.on)
    return "";
  std::vector<Profile::Entry> entries(profile.entries.begin(),
                                      profile.entries.begin() + profile.used);
  std::sort(entries.begin(), entries.end(),
            [](const Profile::Entry &x, const Profile::Entry &y) { return x.seconds > y.seconds; });
  double total = 0;
  for (const Profile::Entry &entry : entries)
    total += entry.seconds;
  std::string text = format("%12s %10s %6s  %s\n", "ms", "calls", "%", "kernel");
  for (const Profile::Entry &entry : entries)
    text += format("%12.3f %10lld %6.1f  %s\n", entry.seconds * 1e3, (long long)entry.calls,
                   100 * entry.seconds / total, entry.name);
  return text;
}

} // namespace shale::rt

/// Whether an address is in the state or arena of host memory.
static bool isHostMemory(const ShaleRank &rank, const void *at) {
  const char *place = static_cast<const char *>(at);
  return (place >= rank.hostState && place < rank.hostState + rank.program->host_state_bytes) ||
         (place >= rank.hostArena && place < rank.hostArena + rank.program->host_arena_bytes);
}

extern "C" void shale_note(ShaleRank *rank, const char *node) { rank->node = node; }

extern "C" void shale_launch(ShaleRank *rank, const char *name, ShaleKernel kernel,
                             void *const *args, int32_t inputs, int32_t outputs, int64_t rows,
                             int64_t grain) {
  if (rank->watch)
    rank->watch->launch(args, inputs, outputs);
  if (tracing()) {
    int64_t begin = traceNow();
    launch(kernel, args, rows, grain);
    bool host = outputs > 0 && isHostMemory(*rank, args[inputs]);
    return traceSpan(TraceStream::Compute, name ? name : "kernel", rank->node, begin, 0, nullptr,
                     host ? "host" : nullptr);
  }
  if (!profile.on)
    return launch(kernel, args, rows, grain);
  double start = profileNow();
  launch(kernel, args, rows, grain);
  profileAdd(name ? name : "kernel", start);
}

extern "C" void shale_gemm(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b, int64_t m,
                           int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                           int64_t ldb, void *c, int64_t ldc, int32_t type, int32_t result_type) {
  if (rank->watch)
    rank->watch->gemm(a, b, c);
  Product product{transpose_a != 0,
                  transpose_b != 0,
                  m,
                  n,
                  k,
                  1,
                  a,
                  lda,
                  b,
                  ldb,
                  0,
                  c,
                  ldc,
                  static_cast<Dtype>(type),
                  static_cast<Dtype>(result_type)};
  if (tracing()) {
    int64_t begin = traceNow();
    multiply(product);
    return traceSpan(TraceStream::Compute, "matrix product", rank->node, begin);
  }
  if (!profile.on)
    return multiply(product);
  double start = profileNow();
  multiply(product);
  char name[64];
  snprintf(name, sizeof(name), "gemm %s %c%c %lld x %lld x %lld", nameOf(product.type),
           transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', (long long)m, (long long)n,
           (long long)k);
  profileAdd(name, start);
}

extern "C" void *shale_scratch(int64_t bytes, int64_t offset) {
  return threadScratch(bytes) + offset;
}

extern "C" void shale_gemm_thread(int32_t transpose_a, int32_t transpose_b, int64_t m, int64_t n,
                                  int64_t k, float alpha, const float *a, int64_t lda,
                                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  multiplyOnThread(
      {transpose_a != 0, transpose_b != 0, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc});
}
