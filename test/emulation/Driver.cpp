// Initialization, the device, its context, and the addresses of functions.
#include "Driver.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

using namespace shale::stub;

namespace {

char primaryContext;
thread_local CUcontext currentContext = nullptr;

CUcontext primary() { return reinterpret_cast<CUcontext>(&primaryContext); }

/// Major and minor number.
std::pair<int, int> capability() {
  int major = 0, minor = 0;
  std::string text = setting("SHALE_STUB_CAPABILITY", "9.0");
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2)
    stop("SHALE_STUB_CAPABILITY: '" + text + "' is not MAJOR.MINOR");
  return {major, minor};
}

/// Whether an error of a call leaves the context unusable.
bool corrupts(CUresult error) {
  switch (error) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_EXTERNAL_DEVICE:
    return true;
  default:
    return false;
  }
}

} // namespace

Driver &Driver::get() {
  static Driver *driver = new Driver; // lives as long as the process, as its streams' work may
  return *driver;
}

Driver::Driver() {
  std::string text = setting("SHALE_STUB_ORDER", "random:1");
  unsigned long long seed = 1;
  char end;
  if (text == "first")
    order = emulation::Order::First;
  else if (text == "last")
    order = emulation::Order::Last;
  else if (std::sscanf(text.c_str(), "random:%llu%c", &seed, &end) != 1)
    stop("SHALE_STUB_ORDER: '" + text + "' is not first, last or random:SEED");
  random.seed(seed);
}

CUresult Driver::enter(const char *function, bool needsContext) {
  if (int error = injected(function, parseError)) {
    auto result = static_cast<CUresult>(error);
    return corrupts(result) ? fail(result, std::string("injected into ") + function) : result;
  }
  SHALE_REQUIRE(initialized, CUDA_ERROR_NOT_INITIALIZED);
  SHALE_REQUIRE(!needsContext || (currentContext && retained > 0), CUDA_ERROR_INVALID_CONTEXT);
  return sticky;
}

CUresult Driver::fail(CUresult error, const std::string &message) {
  if (sticky == CUDA_SUCCESS) {
    sticky = error;
    const char *name = errorName(error);
    std::fprintf(stderr, "shale stub: %s: %s\n", name ? name : "error", message.c_str());
  }
  return sticky;
}

/// The start of a function that needs no context.
#define ENTER_WITHOUT_CONTEXT(function)                                                            \
  Driver &driver = Driver::get();                                                                  \
  Lock lock(driver.mutex);                                                                         \
  if (CUresult failed = driver.enter(function, false))                                             \
  return failed

CUresult cuInit(unsigned flags) {
  Driver &driver = Driver::get();
  Lock lock(driver.mutex);
  if (int error = injected("cuInit", parseError))
    return static_cast<CUresult>(error);
  SHALE_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
  driver.initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  if (int error = injected("cuDriverGetVersion", parseError))
    return static_cast<CUresult>(error);
  SHALE_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
  *version = std::stoi(setting("SHALE_STUB_DRIVER_VERSION", std::to_string(CUDA_VERSION).c_str()));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  ENTER_WITHOUT_CONTEXT("cuDeviceGetCount");
  SHALE_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
  *count = std::stoi(setting("SHALE_STUB_DEVICES", "8"));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER_WITHOUT_CONTEXT("cuDeviceGet");
  SHALE_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
  SHALE_REQUIRE(ordinal >= 0 && ordinal < std::stoi(setting("SHALE_STUB_DEVICES", "8")),
                CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  ENTER_WITHOUT_CONTEXT("cuDeviceGetName");
  SHALE_REQUIRE(name && length > 0, CUDA_ERROR_INVALID_VALUE);
  std::snprintf(name, length, "emulated GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ENTER_WITHOUT_CONTEXT("cuDeviceGetUuid");
  SHALE_REQUIRE(uuid, CUDA_ERROR_INVALID_VALUE);
  std::memset(uuid->bytes, 0x5a, sizeof(uuid->bytes));
  uuid->bytes[0] = char(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  ENTER_WITHOUT_CONTEXT("cuDeviceTotalMem");
  SHALE_REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
  *bytes = driver.memory.capacity();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ENTER_WITHOUT_CONTEXT("cuDeviceGetAttribute");
  SHALE_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return *value = capability().first, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return *value = capability().second, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return *value = 1024, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return *value = 64, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return *value = 0x7fffffff, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return *value = 65535, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return *value = 48 << 10, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return *value = 227 << 10, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return *value = 228 << 10, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return *value = 132, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return *value = 32, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return *value = 2048, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: // kHz
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return *value = 1'000'000, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    return *value = device + 1, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    return *value = 3, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    return *value = 1, CUDA_SUCCESS;
  default:
    return *value = 0, CUDA_SUCCESS;
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  ENTER_WITHOUT_CONTEXT("cuDevicePrimaryCtxRetain");
  SHALE_REQUIRE(context, CUDA_ERROR_INVALID_VALUE);
  ++driver.retained;
  *context = primary();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  ENTER_WITHOUT_CONTEXT("cuDevicePrimaryCtxRelease");
  SHALE_REQUIRE(driver.retained > 0, CUDA_ERROR_INVALID_CONTEXT);
  --driver.retained;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) {
  ENTER_WITHOUT_CONTEXT("cuDevicePrimaryCtxSetFlags");
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER_WITHOUT_CONTEXT("cuCtxSetCurrent");
  SHALE_REQUIRE(!context || (context == primary() && driver.retained > 0),
                CUDA_ERROR_INVALID_CONTEXT);
  currentContext = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  ENTER_WITHOUT_CONTEXT("cuCtxGetCurrent");
  SHALE_REQUIRE(context, CUDA_ERROR_INVALID_VALUE);
  *context = currentContext;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  SHALE_ENTER("cuCtxSynchronize");
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.waitForAll(lock);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult *status) {
  SHALE_REQUIRE(symbol && function, CUDA_ERROR_INVALID_VALUE);
  if (int error = injected("cuGetProcAddress", parseError))
    return static_cast<CUresult>(error);
  static void *self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&Driver::get), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  *function = nullptr;
  for (const char *version : {"_v3", "_v2", ""})
    if (!*function && self)
      *function = dlsym(self, (std::string(symbol) + version).c_str());
  if (std::string(symbol) == "cuGraphInstantiate")
    *function = dlsym(self, "cuGraphInstantiateWithFlags");
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
