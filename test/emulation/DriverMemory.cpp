// Memory of the device, pinned memory of the host, and copies.
//
// The device's addresses are inaccessible in the process, always. The same bytes lie in a second
// region, at addresses that only the emulated device knows.
#include "Driver.h"

#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace shale::stub;

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPattern = 1 << 20; // bytes of the file that fresh memory maps

size_t pagesFor(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

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

CUdeviceptr number(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }

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

} // namespace

// ---- allocations

CUresult Driver::allocate(CUdeviceptr *made, size_t bytes) {
  if (bytes > memoryLimit - memoryUsed)
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
  memoryUsed += bytes;
  rangesValid = false;
  return CUDA_SUCCESS;
}

CUresult Driver::release(CUdeviceptr address) {
  auto found = device.find(address);
  SHALE_REQUIRE(found != device.end(), CUDA_ERROR_INVALID_VALUE);
  char *memory = hostStart + (address - number(deviceStart));
  if (mmap(memory, pagesFor(found->second), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memoryUsed -= found->second;
  device.erase(found);
  rangesValid = false;
  return CUDA_SUCCESS;
}

CUresult Driver::allocatePinned(void **made, size_t bytes) {
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

CUresult Driver::releasePinned(void *address) {
  auto found = pinned.find(number(address));
  SHALE_REQUIRE(found != pinned.end(), CUDA_ERROR_INVALID_VALUE);
  munmap(address, pagesFor(found->second));
  pinned.erase(found);
  rangesValid = false;
  return CUDA_SUCCESS;
}

void Driver::printSums() const {
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

bool Driver::isDevice(CUdeviceptr address) const {
  return deviceStart && address - number(deviceStart) < regionBytes;
}

bool Driver::isAllocated(CUdeviceptr address, size_t bytes) const {
  return holds(device, address, bytes);
}

bool Driver::isPinned(CUdeviceptr address) const { return holds(pinned, address, 0); }

char *Driver::resolve(CUdeviceptr address, size_t bytes) const {
  if (holds(device, address, bytes))
    return hostStart + (address - number(deviceStart));
  return holds(pinned, address, bytes) ? reinterpret_cast<char *>(address) : nullptr;
}

const std::vector<std::pair<const void *, int64_t>> &Driver::ranges() {
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

CUresult shale_stub_check_device(CUdeviceptr address, size_t bytes) {
  SHALE_ENTER("shale_stub_check_device");
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.isAllocated(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc(CUdeviceptr *made, size_t bytes) {
  SHALE_ENTER("cuMemAlloc");
  SHALE_REQUIRE(made && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.allocate(made, bytes);
}

CUresult cuMemFree(CUdeviceptr address) {
  SHALE_ENTER("cuMemFree");
  if (!address)
    return CUDA_SUCCESS;
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  if (CUresult failed = driver.waitForAll(lock))
    return failed;
  return driver.release(address);
}

CUresult cuMemGetInfo(size_t *available, size_t *total) {
  SHALE_ENTER("cuMemGetInfo");
  SHALE_REQUIRE(available && total, CUDA_ERROR_INVALID_VALUE);
  *available = driver.capacity() - driver.used();
  *total = driver.capacity();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **made, size_t bytes, unsigned) {
  SHALE_ENTER("cuMemHostAlloc");
  SHALE_REQUIRE(made && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.allocatePinned(made, bytes);
}

CUresult cuMemFreeHost(void *address) {
  SHALE_ENTER("cuMemFreeHost");
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.releasePinned(address);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *made, void *address, unsigned flags) {
  SHALE_ENTER("cuMemHostGetDevicePointer");
  SHALE_REQUIRE(made && flags == 0 && driver.isPinned(number(address)), CUDA_ERROR_INVALID_VALUE);
  *made = number(address);
  return CUDA_SUCCESS;
}

// ---- copies

namespace {

enum class Side { Any, Host, Device };

/// One side of a copy. Pageable memory is checked by nobody, as on a real system.
struct Place {
  CUdeviceptr address;
  bool pageable;

  char *resolve(Driver &driver, size_t bytes) const {
    return pageable ? reinterpret_cast<char *>(address) : driver.resolve(address, bytes);
  }
};

Place placeOf(Driver &driver, CUdeviceptr address, Side side) {
  return {address, side != Side::Device && !driver.isDevice(address) && !driver.isPinned(address)};
}

std::string span(CUdeviceptr address, size_t bytes) {
  char text[80];
  std::snprintf(text, sizeof(text), "[0x%llx, 0x%llx)", (unsigned long long)address,
                (unsigned long long)(address + bytes));
  return text;
}

std::shared_ptr<Work> copyWork(Driver &driver, Place to, Place from, size_t bytes) {
  return makeWork("a copy", [&driver, to, from, bytes] {
    char *target = to.resolve(driver, bytes), *source = from.resolve(driver, bytes);
    if (!target || !source)
      return driver.fail(CUDA_ERROR_ILLEGAL_ADDRESS,
                         "a copy of " + std::to_string(bytes) + " bytes " +
                             (target ? "reads " + span(from.address, bytes)
                                     : "writes " + span(to.address, bytes)) +
                             ", which is not within one allocation");
    std::memmove(target, source, bytes);
    return CUDA_SUCCESS;
  });
}

/// Enqueues a copy. Pageable memory is read and written before the call returns.
CUresult copyAsync(Driver &driver, Lock &lock, CUdeviceptr target, Side targetSide,
                   CUdeviceptr source, Side sourceSide, size_t bytes, CUstream handle) {
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  if (bytes == 0)
    return CUDA_SUCCESS;
  SHALE_REQUIRE(target && source, CUDA_ERROR_INVALID_VALUE);
  Place to = placeOf(driver, target, targetSide), from = placeOf(driver, source, sourceSide);
  if (to.pageable || from.pageable)
    if (CUresult failed = driver.checkNotCapturing(*stream))
      return failed;
  if (!from.pageable || to.pageable) {
    if (CUresult failed = driver.enqueue(*stream, copyWork(driver, to, from, bytes)))
      return failed;
    return to.pageable ? driver.waitFor(lock, driver.mark(*stream)) : CUDA_SUCCESS;
  }
  auto staged = std::make_shared<std::string>(reinterpret_cast<const char *>(source), bytes);
  Place copy{number(staged->data()), true};
  std::shared_ptr<Work> inner = copyWork(driver, to, copy, bytes);
  return driver.enqueue(*stream,
                        makeWork("a copy", [staged, inner] { return inner->run(nullptr); }));
}

/// A blocking copy.
CUresult copyNow(Driver &driver, Lock &lock, CUdeviceptr target, Side targetSide,
                 CUdeviceptr source, Side sourceSide, size_t bytes) {
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  if (bytes == 0)
    return CUDA_SUCCESS;
  SHALE_REQUIRE(target && source, CUDA_ERROR_INVALID_VALUE);
  Place to = placeOf(driver, target, targetSide), from = placeOf(driver, source, sourceSide);
  return driver.runBlocking(lock, copyWork(driver, to, from, bytes));
}

/// Clears the whole pages within a large range by mapping fresh ones, most of which nobody touches:
/// scratch memory. Returns false if it did nothing.
bool clearPages(char *start, size_t bytes) {
  constexpr size_t kLarge = 16 << 20;
  if (bytes < kLarge)
    return false;
  size_t head = pagesFor(number(start)) - number(start);
  size_t pages = (bytes - head) / kPage * kPage;
  if (mmap(start + head, pages, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return false;
  std::memset(start, 0, head);
  std::memset(start + head + pages, 0, bytes - head - pages);
  return true;
}

template <typename Value>
CUresult fillAsync(Driver &driver, CUdeviceptr target, Value value, size_t count, CUstream handle) {
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(target % sizeof(Value) == 0, CUDA_ERROR_INVALID_VALUE);
  if (count == 0)
    return CUDA_SUCCESS;
  SHALE_REQUIRE(target, CUDA_ERROR_INVALID_VALUE);
  return driver.enqueue(*stream, makeWork("a fill", [&driver, target, value, count] {
    size_t bytes = count * sizeof(Value);
    auto *values = reinterpret_cast<Value *>(driver.resolve(target, bytes));
    if (!values)
      return driver.fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a fill of " + std::to_string(bytes) +
                                                         " bytes writes " + span(target, bytes) +
                                                         ", which is not within one allocation");
    if (value != 0 || !clearPages(reinterpret_cast<char *>(values), bytes))
      std::fill(values, values + count, value);
    return CUDA_SUCCESS;
  }));
}

} // namespace

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  SHALE_ENTER("cuMemcpyHtoDAsync");
  return copyAsync(driver, lock, target, Side::Device, number(source), Side::Host, bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  SHALE_ENTER("cuMemcpyDtoHAsync");
  return copyAsync(driver, lock, number(target), Side::Host, source, Side::Device, bytes, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  SHALE_ENTER("cuMemcpyDtoDAsync");
  return copyAsync(driver, lock, target, Side::Device, source, Side::Device, bytes, stream);
}

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  SHALE_ENTER("cuMemcpyAsync");
  return copyAsync(driver, lock, target, Side::Any, source, Side::Any, bytes, stream);
}

CUresult cuMemcpyHtoD(CUdeviceptr target, const void *source, size_t bytes) {
  SHALE_ENTER("cuMemcpyHtoD");
  return copyNow(driver, lock, target, Side::Device, number(source), Side::Host, bytes);
}

CUresult cuMemcpyDtoH(void *target, CUdeviceptr source, size_t bytes) {
  SHALE_ENTER("cuMemcpyDtoH");
  return copyNow(driver, lock, number(target), Side::Host, source, Side::Device, bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  SHALE_ENTER("cuMemsetD8Async");
  return fillAsync<uint8_t>(driver, target, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
  SHALE_ENTER("cuMemsetD32Async");
  return fillAsync<uint32_t>(driver, target, value, count, stream);
}

void *shale_stub_address(CUdeviceptr address, size_t bytes) {
  return Driver::get().resolve(address, bytes);
}
