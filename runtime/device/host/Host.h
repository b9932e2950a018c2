// The host device: memory blocks, the CPU check, and the profile of kernels.
#ifndef SHALE_RUNTIME_DEVICE_HOST_HOST_H
#define SHALE_RUNTIME_DEVICE_HOST_HOST_H

#include "runtime/core/Types.h"

#include <cstdint>
#include <string>

namespace shale::rt {

/// Zeroed memory from mmap, at least 64-byte aligned, released on destruction.
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

/// Returns the x86-64 level of this CPU: 1 to 4; 0 on other architectures.
int cpuLevel();

/// Throws with exit code 69 if the level of `target` ("x86-64-v3") is above `level`.
void checkCpu(const std::string &target, int level = cpuLevel());

/// c = alpha op(a) op(b) + beta c, row-major; c is m x n. a and b are both f32 or the
/// same 16-bit float. For 16-bit floats, c has that type or f32, alpha is 1 and beta 0.
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
/// Compute the product on all threads, or on the calling thread only (Gemm.cpp).
void multiply(const Product &product);
void multiplyOnThread(const Product &product);

/// Returns `bytes` that belong to the calling thread until it requests more.
char *threadScratch(int64_t bytes);

int hostThreads();
/// Sets the number of threads for the calling thread's kernels and products; call it before the
/// first of them.
void setHostThreads(int threads);
/// Returns the number of CPUs that this process may run on.
int availableCpus();

/// Adds the time since `start` (profileNow) under a name, if SHALE_PROFILE is
/// set; main thread only.
bool profiling();
double profileNow();
void profileAdd(const char *name, double start);
/// Returns the times of kernels, products and waits by name, if SHALE_PROFILE is set; else "".
std::string profileTable();

} // namespace shale::rt

#endif
