// Programs that are linked with this file run on an NVIDIA GPU.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/host/Host.h"

#include <cstdlib>
#include <cstring>

namespace shale::rt {

using namespace cuda;

/// Returns the number of the GPU of a rank: the local rank, again from 0 on if there are fewer
/// GPUs.
static int ordinalOf(int localRank) {
  int count = 0;
  require(driver().cuDeviceGetCount(&count), "count the GPUs");
  if (count == 0)
    fail(SHALE_EXIT_UNAVAILABLE,
         "this machine has no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it");
  return localRank % count;
}

/// Whether code for `architecture` ("sm_80", "sm_90a") runs on a GPU: that of sm_80 on every later
/// minor version, that with an "a" only on its own.
static bool runsOn(const std::string &architecture, int major, int minor) {
  if (architecture.compare(0, 3, "sm_") != 0)
    return true; // the driver decides
  int version = std::atoi(architecture.c_str() + 3);
  if (architecture.back() == 'a')
    return version == major * 10 + minor;
  return version / 10 == major && version % 10 <= minor;
}

void checkDevice(const ShaleProgram &program, const DeviceOptions &options) {
  checkCpu(program.host);
  setLibraryFolder(options.libraries);
  CUdevice device = 0;
  require(driver().cuDeviceGet(&device, ordinalOf(options.localRank)), "open the GPU");
  auto [major, minor] = computeCapability(device);
  std::string list = program.target;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    if (runsOn(list.substr(begin, end - begin), major, minor)) {
      Blas::check();
      return program.attends ? Dnn::check() : void();
    }
    begin = end + 1;
  }
  fail(SHALE_EXIT_USAGE,
       "this program was compiled for %s, which does not run on this GPU of compute capability "
       "%d.%d; compile it with another --target",
       program.target, major, minor);
}

std::unique_ptr<Device> openDevice(const ShaleProgram &program, const DeviceOptions &options) {
  setLibraryFolder(options.libraries);
  return std::make_unique<CudaDevice>(program, ordinalOf(options.localRank), options.graphs);
}

} // namespace shale::rt
