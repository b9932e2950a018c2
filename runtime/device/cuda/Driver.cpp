// Opens NVIDIA's driver.
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/Libraries.h"

#include <dlfcn.h>

namespace shale::rt::cuda {

namespace {

constexpr int kLeastDriver = 13000; // CUDA 13.0

Driver openDriver() {
  constexpr const char *name = "libcuda.so.1";
  void *library = openLibrary(name, "this program needs NVIDIA's driver for CUDA 13 or later");
  Driver driver;
#define SHALE_TEXT(name) #name
#define SHALE_FIND(name)                                                                           \
  driver.name##_ = reinterpret_cast<decltype(driver.name##_)>(                                     \
      findFunction(library, "libcuda.so.1", SHALE_TEXT(name)));
  SHALE_DRIVER_FUNCTIONS(SHALE_FIND)
#undef SHALE_FIND
#undef SHALE_TEXT
  if (CUresult result = driver.cuInit_(0); result != CUDA_SUCCESS)
    fail(SHALE_EXIT_UNAVAILABLE, "NVIDIA's driver finds no usable GPU: %s",
         driver.explain(result).c_str());
  int version = 0;
  if (driver.cuDriverGetVersion_(&version) != CUDA_SUCCESS || version < kLeastDriver)
    fail(SHALE_EXIT_UNAVAILABLE,
         "NVIDIA's driver is for CUDA %d.%d; this program needs one for CUDA %d.%d or later",
         version / 1000, version % 1000 / 10, kLeastDriver / 1000, kLeastDriver % 1000 / 10);
  return driver;
}

} // namespace

static std::string &libraryFolder() {
  static std::string folder;
  return folder;
}

void setLibraryFolder(const std::string &folder) { libraryFolder() = folder; }

void *openLibrary(const char *name, const char *purpose) {
  const std::string &folder = libraryFolder();
  std::string reason;
  if (!folder.empty()) {
    if (void *library = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL))
      return library;
    reason = dlerror();
  }
  if (void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL))
    return library;
  if (reason.empty())
    reason = dlerror();
  fail(SHALE_EXIT_UNAVAILABLE,
       "%s: %s; install it, or name the folder that has it with --cuda-libraries", purpose,
       reason.c_str());
}

void *findFunction(void *library, const char *libraryName, const char *function) {
  if (void *found = dlsym(library, function))
    return found;
  fail(SHALE_EXIT_UNAVAILABLE, "%s has no function %s: it is too old for this program", libraryName,
       function);
}

std::string Driver::explain(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName_(result, &name) != CUDA_SUCCESS ||
      cuGetErrorString_(result, &text) != CUDA_SUCCESS || !name || !text)
    return format("error %d", static_cast<int>(result));
  return format("%s (%s)", text, name);
}

const Driver &driver() {
  static const Driver opened = openDriver();
  return opened;
}

void require(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    fail(SHALE_EXIT_UNAVAILABLE, "cannot %s: %s", what, driver().explain(result).c_str());
}

void must(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    die(SHALE_EXIT_INTERNAL,
        format("the GPU cannot %s: %s", what, driver().explain(result).c_str()));
}

} // namespace shale::rt::cuda
