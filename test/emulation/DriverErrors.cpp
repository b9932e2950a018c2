// Names of the driver's errors.
#include "Driver.h"

using namespace shale::stub;

namespace {

struct Name {
  CUresult error;
  const char *name, *text;
};

#define NAME(error, text) {error, #error, text}
const Name names[] = {
    NAME(CUDA_SUCCESS, "no error"),
    NAME(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    NAME(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    NAME(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    NAME(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    NAME(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    NAME(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    NAME(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    NAME(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    NAME(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    NAME(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    NAME(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    NAME(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         "the provided PTX was compiled with an unsupported toolchain."),
    NAME(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    NAME(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    NAME(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    NAME(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    NAME(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    NAME(CUDA_ERROR_NOT_READY, "device not ready"),
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    NAME(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    NAME(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    NAME(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    NAME(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    NAME(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE,
         "operation not supported on global/shared address space"),
    NAME(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    NAME(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    NAME(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    NAME(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    NAME(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
         "system has unsupported display driver / cuda driver combination"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
         "operation failed due to a previous error during capture"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE,
         "operation would result in a merge of separate capture sequences"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
         "capture was not ended in the same stream as it began"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
         "dependency created on uncaptured work in another stream"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
         "operation would make the legacy stream depend on a capturing blocking stream"),
    NAME(CUDA_ERROR_CAPTURED_EVENT,
         "operation not permitted on an event last recorded in a capturing stream"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
         "attempt to terminate a thread-local capture sequence from another thread"),
    NAME(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    NAME(CUDA_ERROR_EXTERNAL_DEVICE, "operation failed on an external device"),
    NAME(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const Name *find(CUresult error) {
  for (const Name &name : names)
    if (name.error == error)
      return &name;
  return nullptr;
}

} // namespace

int shale::stub::parseError(const std::string &text) {
  for (const Name &name : names)
    if (name.name == text)
      return name.error;
  return -1;
}

const char *shale::stub::errorName(CUresult error) {
  const Name *found = find(error);
  return found ? found->name : nullptr;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  const Name *found = find(error);
  *text = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const Name *found = find(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
