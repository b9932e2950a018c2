// Blocks of memory of the emulated device and of pinned memory.
#include "EmulatedMemory.h"
#include "Faults.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace shale::stub;

namespace {

constexpr size_t kPattern = 1 << 20; // bytes of the file that fresh memory maps

char *reserve(size_t bytes) {
  void *memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

/// A file of 0xff bytes, or -1.
int makePattern() {
  int file = memfd_create("pattern", MFD_CLOEXEC);
  if (file < 0)
    return -1;
  std::string bytes(kPattern, char(0xff));
  for (size_t at = 0; at < kPattern;) {
    ssize_t written = write(file, bytes.data() + at, kPattern - at);
    if (written <= 0)
      return close(file), -1;
    at += written;
  }
  return file;
}

/// The allocation that may hold an address.
std::map<CUdeviceptr, size_t>::const_iterator before(const std::map<CUdeviceptr, size_t> &all,
                                                     CUdeviceptr address) {
  auto after = all.upper_bound(address);
  return after == all.begin() ? all.end() : std::prev(after);
}

bool holds(const std::map<CUdeviceptr, size_t> &all, CUdeviceptr address, size_t bytes) {
  auto found = before(all, address);
  return found != all.end() && address - found->first <= found->second &&
         bytes <= found->second - (address - found->first);
}

/// The number of bytes that a variable of the environment says.
size_t bytesOf(const char *variable, const char *otherwise) {
  std::string text = setting(variable, otherwise);
  unsigned long long bytes;
  char end;
  if (std::sscanf(text.c_str(), "%llu%c", &bytes, &end) != 1)
    stop(std::string(variable) + ": '" + text + "' is not a number of bytes");
  return bytes;
}

} // namespace

EmulatedMemory::EmulatedMemory()
    : limit(bytesOf("SHALE_STUB_MEMORY", "17179869184")),
      summedBytes(bytesOf("SHALE_STUB_SUMS", "0")) {}

CUresult EmulatedMemory::allocate(CUdeviceptr *made, size_t bytes) {
  if (bytes > limit - inUse)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t size = size_t(1) << 41; !deviceStart && size >= size_t(1) << 32; size /= 4) {
    deviceStart = reserve(size);
    hostStart = deviceStart ? reserve(size) : nullptr;
    if (!hostStart && deviceStart) {
      munmap(deviceStart, size);
      deviceStart = nullptr;
    }
    regionBytes = size;
  }
  if (pattern < 0)
    pattern = makePattern();
  // Addresses are not used again, so that uses of freed memory are found.
  size_t pages = pagesFor(bytes);
  if (!deviceStart || pattern < 0 || pages + kPage > regionBytes - regionUsed)
    stop("no address space for device memory");
  for (size_t at = 0; at < pages; at += kPattern)
    if (mmap(hostStart + regionUsed + at, std::min(kPattern, pages - at), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, pattern, 0) == MAP_FAILED)
      stop("cannot map device memory");
  *made = number(deviceStart + regionUsed);
  device[*made] = bytes;
  regionUsed += pages + kPage;
  inUse += bytes;
  rangesValid = false;
  return CUDA_SUCCESS;
}

CUresult EmulatedMemory::release(CUdeviceptr address) {
  auto found = device.find(address);
  if (found == device.end())
    return CUDA_ERROR_INVALID_VALUE;
  char *memory = hostStart + (address - number(deviceStart));
  if (mmap(memory, pagesFor(found->second), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  inUse -= found->second;
  device.erase(found);
  rangesValid = false;
  return CUDA_SUCCESS;
}

CUresult EmulatedMemory::allocatePinned(void **made, size_t bytes) {
  void *memory =
      mmap(nullptr, pagesFor(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0xff, bytes);
  *made = memory;
  pinned[number(memory)] = bytes;
  rangesValid = false;
  return CUDA_SUCCESS;
}

CUresult EmulatedMemory::releasePinned(void *address) {
  auto found = pinned.find(number(address));
  if (found == pinned.end())
    return CUDA_ERROR_INVALID_VALUE;
  munmap(address, pagesFor(found->second));
  pinned.erase(found);
  rangesValid = false;
  return CUDA_SUCCESS;
}

void EmulatedMemory::printSums() const {
  for (const auto *blocks : {&device, &pinned})
    for (auto [start, bytes] : *blocks) {
      if (bytes != summedBytes)
        continue;
      uint64_t sum = 0xcbf29ce484222325; // FNV-1a
      const char *memory = resolve(start, bytes);
      for (size_t i = 0; i < bytes; ++i)
        sum = (sum ^ static_cast<unsigned char>(memory[i])) * 0x100000001b3;
      std::fprintf(stderr, "shale stub: process %d sum %016llx\n", getpid(),
                   static_cast<unsigned long long>(sum));
    }
}

bool EmulatedMemory::isDevice(CUdeviceptr address) const {
  return deviceStart && address - number(deviceStart) < regionBytes;
}

bool EmulatedMemory::isAllocated(CUdeviceptr address, size_t bytes) const {
  return holds(device, address, bytes);
}

bool EmulatedMemory::isPinned(CUdeviceptr address) const { return holds(pinned, address, 0); }

char *EmulatedMemory::resolve(CUdeviceptr address, size_t bytes) const {
  if (holds(device, address, bytes))
    return hostStart + (address - number(deviceStart));
  return holds(pinned, address, bytes) ? reinterpret_cast<char *>(address) : nullptr;
}

const std::vector<std::pair<const void *, int64_t>> &EmulatedMemory::ranges() {
  if (rangesValid)
    return kernelRanges;
  kernelRanges.clear();
  for (auto [start, bytes] : device)
    kernelRanges.push_back({resolve(start, bytes), int64_t(bytes)});
  for (auto [start, bytes] : pinned)
    kernelRanges.push_back({reinterpret_cast<const void *>(start), int64_t(bytes)});
  std::sort(kernelRanges.begin(), kernelRanges.end());
  rangesValid = true;
  return kernelRanges;
}
