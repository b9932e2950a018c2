// NVIDIA's driver.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_DRIVER_H
#define SHALE_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "runtime/core/Error.h"
#include "runtime/device/cuda/DynamicLibrary.h"

#include <cuda.h>
#include <string>

namespace shale::rt::cuda {

/// Functions of libcuda.so.1, as cuda.h declares them.
#define SHALE_DRIVER_FUNCTIONS(X)                                                                  \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion)                                                                            \
  X(cuDeviceGetCount)                                                                              \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetUuid)                                                                               \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuCtxSetCurrent)                                                                               \
  X(cuMemAlloc)                                                                                    \
  X(cuMemFree)                                                                                     \
  X(cuMemGetInfo)                                                                                  \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemcpyHtoDAsync)                                                                             \
  X(cuMemcpyDtoHAsync)                                                                             \
  X(cuMemcpyDtoDAsync)                                                                             \
  X(cuMemsetD8Async)                                                                               \
  X(cuMemsetD32Async)                                                                              \
  X(cuStreamCreate)                                                                                \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamWaitEvent)                                                                             \
  X(cuStreamBatchMemOp)                                                                            \
  X(cuStreamBeginCapture)                                                                          \
  X(cuStreamEndCapture)                                                                            \
  X(cuGraphInstantiate)                                                                            \
  X(cuGraphDestroy)                                                                                \
  X(cuGraphLaunch)                                                                                 \
  X(cuEventCreate)                                                                                 \
  X(cuEventRecord)                                                                                 \
  X(cuEventQuery)                                                                                  \
  X(cuEventElapsedTime)                                                                            \
  X(cuEventSynchronize)                                                                            \
  X(cuLaunchHostFunc)                                                                              \
  X(cuModuleLoadData)                                                                              \
  X(cuModuleGetFunction)                                                                           \
  X(cuFuncLoad)                                                                                    \
  X(cuLaunchKernel)                                                                                \
  X(cuGetErrorName)                                                                                \
  X(cuGetErrorString)

struct Driver {
  SHALE_DRIVER_FUNCTIONS(SHALE_DECLARE_FUNCTION)

  /// Describes an error: "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string explain(CUresult result) const;
};

/// Opens and initializes the driver once. Throws with exit code 69 without a driver of CUDA 13.
const Driver &driver();

/// Returns the exit code of a failed call: 78 if the GPU has too little memory, else `otherwise`.
int exitCode(CUresult result, int otherwise);

/// Throws with exit code 69 if a call failed, or 78 if the GPU has too little memory; `what`
/// completes "cannot ...".
void require(CUresult result, const char *what);

struct ComputeCapability {
  int major = 0, minor = 0;
};

/// Throws with exit code 69.
ComputeCapability computeCapability(CUdevice device);

/// Ends the process with exit code 70 if a call of the step failed, or 78 if the GPU has too little
/// memory. Errors of a kernel appear at a later call.
void must(CUresult result, const char *what);

/// Makes later work of a stream wait for the work of another one, by way of an event. Ends the
/// process as must() does.
void order(CUstream stream, CUevent event, CUstream other);

} // namespace shale::rt::cuda

#endif
