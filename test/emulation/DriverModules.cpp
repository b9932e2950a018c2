// Modules and launches of kernels.
#include "Driver.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace shale::stub;

namespace {

/// A shared library with emulated kernels.
struct Module {
  int file = -1; // open as long as the library is: its name is unique so long
  void *library = nullptr;
  const ShaleEmulatedKernel *kernels = nullptr;

  Module() = default;
  Module(const Module &) = delete;
  ~Module() {
    if (library)
      dlclose(library);
    if (file >= 0)
      close(file);
  }
};

std::map<CUmodule, std::shared_ptr<Module>> modules;

/// Kernels by handle: the address of their entry.
std::map<CUfunction, std::shared_ptr<Module>> functions;

const ShaleEmulatedKernel *find(CUfunction function) {
  return functions.count(function) ? reinterpret_cast<const ShaleEmulatedKernel *>(function)
                                   : nullptr;
}

/// The bytes of a shared library, or 0 if `image` is none. Its sections' headers are at its end.
size_t sizeOf(const void *image) {
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return 0;
  std::memcpy(&header, image, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_type != ET_DYN)
    return 0;
  return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
}

/// Loads a library from memory.
CUresult load(Module &module, const char *image, size_t bytes) {
  module.file = memfd_create("module", MFD_CLOEXEC);
  if (module.file < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  for (size_t at = 0; at < bytes;) {
    ssize_t written = write(module.file, image + at, bytes - at);
    if (written <= 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
    at += written;
  }
  std::string name = "/proc/self/fd/" + std::to_string(module.file);
  module.library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module.library) {
    std::fprintf(stderr, "shale stub: cuModuleLoadData: %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  module.kernels =
      static_cast<const ShaleEmulatedKernel *>(dlsym(module.library, "shale_emulated_kernels"));
  if (!module.kernels) {
    std::fprintf(stderr, "shale stub: cuModuleLoadData: no shale_emulated_kernels\n");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}

class Launch final : public Work {
public:
  Launch(Driver &driver, std::shared_ptr<Module> module, const ShaleEmulatedKernel &kernel,
         int64_t blocks, void **parameters)
      : Work(kernel.name), driver(driver), module(std::move(module)), kernel(kernel),
        blocks(blocks) {
    for (int32_t i = 0; i < kernel.arguments; ++i) {
      arguments.emplace_back();
      std::memcpy(&arguments.back(), parameters[i], sizeof(CUdeviceptr));
    }
  }
  CUresult run(void *) override {
    std::vector<void *> addresses;
    for (CUdeviceptr argument : arguments) {
      void *address = driver.memory.resolve(argument, 0);
      addresses.push_back(address ? address : reinterpret_cast<void *>(argument));
    }
    static shale::emulation::Options options;
    if (driver.memory.ranges() != options.buffers)
      options.buffers = driver.memory.ranges();
    options.order = driver.order;
    options.seed = driver.random();
    options.races = false;
    shale::emulation::Result result = shale::emulation::run(
        {kernel.function, blocks, kernel.threads, kernel.shared_bytes}, addresses.data(), options);
    if (result.error.empty())
      return CUDA_SUCCESS;
    return driver.fail(result.stray ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED,
                       "kernel " + std::string(kernel.name) + ": " + result.error);
  }

  double seconds() const override {
    static const double cost = [] {
      std::string text = setting("SHALE_STUB_KERNEL_COST", "100");
      char end;
      double read = 0;
      if (std::sscanf(text.c_str(), "%lf%c", &read, &end) != 1 || read < 0)
        stop("SHALE_STUB_KERNEL_COST: '" + text + "' is not a number of microseconds");
      return read * 1e-6;
    }();
    return cost;
  }

private:
  Driver &driver;
  std::shared_ptr<Module> module;
  const ShaleEmulatedKernel &kernel;
  int64_t blocks;
  std::vector<CUdeviceptr> arguments;
};

} // namespace

CUresult cuModuleLoadData(CUmodule *made, const void *image) {
  SHALE_ENTER("cuModuleLoadData");
  SHALE_REQUIRE(made && image, CUDA_ERROR_INVALID_VALUE);
  size_t bytes = sizeOf(image);
  SHALE_REQUIRE(bytes > 0, CUDA_ERROR_NO_BINARY_FOR_GPU);
  auto module = std::make_shared<Module>();
  if (CUresult failed = load(*module, static_cast<const char *>(image), bytes))
    return failed;
  *made = reinterpret_cast<CUmodule>(module.get());
  modules[*made] = std::move(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  SHALE_ENTER("cuModuleUnload");
  auto found = modules.find(handle);
  SHALE_REQUIRE(found != modules.end(), CUDA_ERROR_INVALID_HANDLE);
  for (auto entry = functions.begin(); entry != functions.end();)
    entry = entry->second == found->second ? functions.erase(entry) : std::next(entry);
  modules.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *made, CUmodule handle, const char *name) {
  SHALE_ENTER("cuModuleGetFunction");
  SHALE_REQUIRE(made && name, CUDA_ERROR_INVALID_VALUE);
  auto found = modules.find(handle);
  SHALE_REQUIRE(found != modules.end(), CUDA_ERROR_INVALID_HANDLE);
  for (const ShaleEmulatedKernel *kernel = found->second->kernels; kernel->name; ++kernel)
    if (std::strcmp(kernel->name, name) == 0) {
      *made = reinterpret_cast<CUfunction>(const_cast<ShaleEmulatedKernel *>(kernel));
      functions[*made] = found->second;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  SHALE_ENTER("cuFuncGetAttribute");
  const ShaleEmulatedKernel *kernel = find(function);
  SHALE_REQUIRE(kernel, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return *value = kernel->threads, CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return *value = int(kernel->shared_bytes), CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return *value = 32, CUDA_SUCCESS;
  default:
    return *value = 0, CUDA_SUCCESS;
  }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  SHALE_ENTER("cuFuncSetAttribute");
  SHALE_REQUIRE(find(function), CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                    (value >= 0 && value <= 227 << 10),
                CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  SHALE_ENTER("cuFuncLoad");
  SHALE_REQUIRE(find(function), CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                        CUstream handle, void **parameters, void **extra) {
  SHALE_ENTER("cuLaunchKernel");
  const ShaleEmulatedKernel *kernel = find(function);
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(kernel && stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(gridX > 0 && gridX <= 0x7fffffff && gridY == 1 && gridZ == 1 && blockY == 1 &&
                    blockZ == 1 && int64_t(blockX) == kernel->threads && !extra &&
                    (parameters || kernel->arguments == 0) && shared <= 227 << 10,
                CUDA_ERROR_INVALID_VALUE);
  return driver.enqueue(
      *stream, std::make_shared<Launch>(driver, functions[function], *kernel, gridX, parameters));
}
