// The states that calls of the emulated cuBLASLt return.
#ifndef SHALE_TEST_EMULATION_BLASSTATUS_H
#define SHALE_TEST_EMULATION_BLASSTATUS_H

#include "Faults.h"

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop
#include <string>

namespace shale::stub {

#define SHALE_STATUS(status, text) {status, #status, text}
struct Status {
  cublasStatus_t status;
  const char *name, *text;
};
inline const Status statuses[] = {
    SHALE_STATUS(CUBLAS_STATUS_SUCCESS, "success"),
    SHALE_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
    SHALE_STATUS(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
    SHALE_STATUS(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed"),
    SHALE_STATUS(CUBLAS_STATUS_ARCH_MISMATCH, "the device lacks a required feature"),
    SHALE_STATUS(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed"),
    SHALE_STATUS(CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute"),
    SHALE_STATUS(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed"),
    SHALE_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality is not supported"),
    SHALE_STATUS(CUBLAS_STATUS_LICENSE_ERROR, "the license is invalid"),
};

inline int parseStatus(const std::string &name) {
  for (auto &known : statuses)
    if (name == known.name)
      return known.status;
  return -1;
}
#undef SHALE_STATUS

inline Status found(cublasStatus_t status) {
  for (auto &known : statuses)
    if (known.status == status)
      return known;
  return {status, "unknown", "unknown"};
}

} // namespace shale::stub

/// Ends a call with the state that a test asks for.
#define ENTER(function)                                                                            \
  if (int error = injected(function, parseStatus))                                                 \
  return static_cast<cublasStatus_t>(error)
/// Ends a call unless a condition holds.
#define REQUIRE(condition, status)                                                                 \
  if (!(condition))                                                                                \
  return CUBLAS_STATUS_##status

#endif
