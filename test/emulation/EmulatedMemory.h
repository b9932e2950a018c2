// Blocks of memory of the emulated device and of pinned memory.
//
// The device's addresses are inaccessible in the process, always. The same bytes lie in a second
// region, at addresses that only the emulated device knows.
#ifndef SHALE_TEST_EMULATION_EMULATEDMEMORY_H
#define SHALE_TEST_EMULATION_EMULATEDMEMORY_H

#include "Stub.h"
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace shale::stub {

constexpr size_t kPage = 4096;
inline size_t pagesFor(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

inline CUdeviceptr number(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }

/// All blocks of device and pinned memory. Calls that make or release blocks return the errors of
/// the driver's API. The caller holds the driver's lock.
class EmulatedMemory {
public:
  /// Reads from the environment how much memory the device has (SHALE_STUB_MEMORY), and of which
  /// blocks it prints sums (SHALE_STUB_SUMS).
  EmulatedMemory();

  CUresult allocate(CUdeviceptr *made, size_t bytes);
  CUresult release(CUdeviceptr address);
  CUresult allocatePinned(void **made, size_t bytes);
  CUresult releasePinned(void *address);
  bool isDevice(CUdeviceptr address) const;
  /// Whether the range is within one allocation of device memory.
  bool isAllocated(CUdeviceptr address, size_t bytes) const;
  bool isPinned(CUdeviceptr address) const;
  /// The host's address of device or pinned memory within one allocation, else null.
  char *resolve(CUdeviceptr address, size_t bytes) const;
  /// Bytes of device memory.
  size_t capacity() const { return limit; }
  size_t used() const { return inUse; }
  /// Prints a checksum of each block of device or pinned memory with as many bytes as
  /// SHALE_STUB_SUMS says.
  void printSums() const;
  /// The host's ranges of device and pinned memory, for kernels: sorted.
  const std::vector<std::pair<const void *, int64_t>> &ranges();

private:
  char *deviceStart = nullptr, *hostStart = nullptr; ///< regions of the same size
  size_t regionBytes = 0, regionUsed = 0;
  int pattern = -1; ///< a file of 0xff bytes
  size_t limit, inUse = 0, summedBytes;
  std::map<CUdeviceptr, size_t> device, pinned; ///< bytes by start
  std::vector<std::pair<const void *, int64_t>> kernelRanges;
  bool rangesValid = false;
};

} // namespace shale::stub

#endif
