// Memory of the device, pinned memory of the host, and copies.
#include "Driver.h"

#include <cstdio>
#include <cstring>
#include <sys/mman.h>

using namespace shale::stub;

// ---- allocations

CUresult shale_stub_check_device(CUdeviceptr address, size_t bytes) {
  SHALE_ENTER("shale_stub_check_device");
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.memory.isAllocated(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc(CUdeviceptr *made, size_t bytes) {
  SHALE_ENTER("cuMemAlloc");
  SHALE_REQUIRE(made && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.memory.allocate(made, bytes);
}

CUresult cuMemFree(CUdeviceptr address) {
  SHALE_ENTER("cuMemFree");
  if (!address)
    return CUDA_SUCCESS;
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  if (CUresult failed = driver.waitForAll(lock))
    return failed;
  return driver.memory.release(address);
}

CUresult cuMemGetInfo(size_t *available, size_t *total) {
  SHALE_ENTER("cuMemGetInfo");
  SHALE_REQUIRE(available && total, CUDA_ERROR_INVALID_VALUE);
  *available = driver.memory.capacity() - driver.memory.used();
  *total = driver.memory.capacity();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **made, size_t bytes, unsigned) {
  SHALE_ENTER("cuMemHostAlloc");
  SHALE_REQUIRE(made && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.memory.allocatePinned(made, bytes);
}

CUresult cuMemFreeHost(void *address) {
  SHALE_ENTER("cuMemFreeHost");
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.memory.releasePinned(address);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *made, void *address, unsigned flags) {
  SHALE_ENTER("cuMemHostGetDevicePointer");
  SHALE_REQUIRE(made && flags == 0 && driver.memory.isPinned(number(address)),
                CUDA_ERROR_INVALID_VALUE);
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
    return pageable ? reinterpret_cast<char *>(address) : driver.memory.resolve(address, bytes);
  }
};

Place placeOf(Driver &driver, CUdeviceptr address, Side side) {
  return {address, side != Side::Device && !driver.memory.isDevice(address) &&
                       !driver.memory.isPinned(address)};
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
    auto *values = reinterpret_cast<Value *>(driver.memory.resolve(target, bytes));
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
  return Driver::get().memory.resolve(address, bytes);
}
