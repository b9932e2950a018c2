// The host device: memory blocks, the CPU check, and the profile of kernels.
#ifndef SHALE_RUNTIME_DEVICE_HOST_HOST_H
#define SHALE_RUNTIME_DEVICE_HOST_HOST_H

#include "runtime/core/Types.h"

#include <cstdint>
#include <string>

namespace shale::rt {

/// Zeroed memory from mmap, at least 64-byte aligned, held until the end.
class Block {
public:
  Block() = default;
  explicit Block(int64_t bytes, const char *what);
  ~Block();
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  Block(Block &&other) noexcept;
  Block &operator=(Block &&other) noexcept;
  char *data() const { return start; }
  int64_t size() const { return length; }

private:
  char *start = nullptr;
  int64_t length = 0;
};

/// The level of x86-64 that this CPU runs: 1 to 4, 0 where it is none.
int cpuLevel();

/// Throws with exit code 69 when `target` ("x86-64-v3") is a level above `level`.
void checkCpu(const std::string &target, int level = cpuLevel());

/// c = alpha op(a) op(b) + beta c, row-major; c is m x n. a and b are f32 or of one
/// half type; where they are halves c is so, too, or f32, and alpha is 1 and beta 0.
struct Product {
  bool transposeA, transposeB;
  int64_t m, n, k;
  float alpha;
  const void *a;
  int64_t lda;
  const void *b;
  int64_t ldb;
  float beta;
  void *c;
  int64_t ldc;
  Dtype type = Dtype::F32, resultType = Dtype::F32;
};
/// By all threads, or by the calling one (Gemm.cpp).
void multiply(const Product &product);
void multiplyOnThread(const Product &product);

/// `bytes` that belong to the calling thread until it asks for more.
char *threadScratch(int64_t bytes);

int hostThreads();
/// Of the calling thread's kernels and products; before the first of them.
void setHostThreads(int threads);
/// CPUs this process may run on.
int availableCpus();

/// Adds the time since `start` (profileNow) under a name, when SHALE_PROFILE is
/// set; main thread only.
bool profiling();
double profileNow();
void profileAdd(const char *name, double start);
/// Times of kernels, products and waits by name, when SHALE_PROFILE is set.
std::string profileTable();

} // namespace shale::rt

#endif
