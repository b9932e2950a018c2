// Opens NVIDIA's driver.
#include "runtime/device/cuda/Driver.h"

#include <utility>

namespace shale::rt::cuda {

namespace {

constexpr int kLeastDriver = 13000; // CUDA 13.0

Driver openDriver() {
  DynamicLibrary library("libcuda.so.1", "this program needs NVIDIA's driver for CUDA 13 or later");
  Driver functions;
  SHALE_DRIVER_FUNCTIONS(SHALE_FIND_FUNCTION)
  if (CUresult result = functions.cuInit(0); result != CUDA_SUCCESS)
    fail(SHALE_EXIT_UNAVAILABLE, "NVIDIA's driver finds no usable GPU: %s",
         functions.explain(result).c_str());
  int version = 0;
  if (functions.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < kLeastDriver)
    fail(SHALE_EXIT_UNAVAILABLE,
         "NVIDIA's driver is for CUDA %d.%d; this program needs one for CUDA %d.%d or later",
         version / 1000, version % 1000 / 10, kLeastDriver / 1000, kLeastDriver % 1000 / 10);
  return functions;
}

} // namespace

std::string Driver::explain(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS ||
      cuGetErrorString(result, &text) != CUDA_SUCCESS || !name || !text)
    return format("error %d", static_cast<int>(result));
  return format("%s (%s)", text, name);
}

const Driver &driver() {
  static const Driver opened = openDriver();
  return opened;
}

int exitCode(CUresult result, int otherwise) {
  return result == CUDA_ERROR_OUT_OF_MEMORY ? SHALE_EXIT_NO_FIT : otherwise;
}

void require(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    fail(exitCode(result, SHALE_EXIT_UNAVAILABLE), "cannot %s: %s", what,
         driver().explain(result).c_str());
}

ComputeCapability computeCapability(CUdevice device) {
  ComputeCapability found;
  for (auto [attribute, value] :
       {std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &found.major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &found.minor}})
    require(driver().cuDeviceGetAttribute(value, attribute, device), "query the GPU");
  return found;
}

void must(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    die(exitCode(result, SHALE_EXIT_INTERNAL),
        format("the GPU cannot %s: %s", what, driver().explain(result).c_str()));
}

void order(CUstream stream, CUevent event, CUstream other) {
  must(driver().cuEventRecord(event, other), "record an event");
  must(driver().cuStreamWaitEvent(stream, event, 0), "wait for an event");
}

} // namespace shale::rt::cuda
