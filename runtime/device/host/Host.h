// Parts of the host device: memory blocks, the CPU check, threads, kernels and matmuls.
#ifndef SHALE_RUNTIME_DEVICE_HOST_HOST_H
#define SHALE_RUNTIME_DEVICE_HOST_HOST_H

#include "runtime/device/Device.h"

#include <cstdint>
#include <string>

namespace shale::rt {

/// Zeroed memory from mmap, at least 64-byte aligned, released on destruction.
class Block final : public Memory {
public:
  Block() = default;
  explicit Block(int64_t bytes, const char *what);
  ~Block() override;
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  Block(Block &&other) noexcept;
  Block &operator=(Block &&other) noexcept;
};

/// Returns the x86-64 level of this CPU: 1 to 4; 0 on other architectures.
int cpuLevel();

/// Throws with exit code 69 if the level of `target` ("x86-64-v3") is above `level`.
void checkCpu(const std::string &target, int level = cpuLevel());

/// Runs a kernel on all threads (Launch.cpp).
void launchOnThreads(const Launch &launch);

/// Compute the first matmul on all threads, every matmul of the batch on all threads, that of each
/// group of rows on all threads, or the first on the calling thread only (Gemm.cpp).
void multiply(const Matmul &matmul);
void multiplyBatch(const Matmul &matmul);
void multiplyGroups(const Matmul &matmul);
void multiplyOnThread(const Matmul &matmul);

/// Returns `bytes` that belong to the calling thread until it requests more.
char *threadScratch(int64_t bytes);

/// Returns the number of threads of the calling thread's kernels and matmuls.
int hostThreads();
/// Sets the number of threads for the calling thread's kernels and matmuls; call it before the
/// first of them.
void setHostThreads(int threads);
/// Returns the number of CPUs that this process may run on.
int availableCpus();

} // namespace shale::rt

#endif
