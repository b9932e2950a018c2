// Opens NCCL.
#include "runtime/comm/nccl/Library.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cstdlib>

namespace shale::rt {

static Nccl openNccl() {
  constexpr const char *name = "libnccl.so.2";
  constexpr int least = 22800;
  cuda::DynamicLibrary library(name, "ranks on GPUs need NCCL 2.28 or later, or --comm staged");
  Nccl functions;
  SHALE_NCCL_FUNCTIONS(SHALE_FIND_FUNCTION)
  int version = 0;
  if (functions.ncclGetVersion(&version) != ncclSuccess || version < least)
    fail(SHALE_EXIT_UNAVAILABLE, "%s is version %d.%d.%d; this program needs 2.28 or later", name,
         version / 10000, version % 10000 / 100, version % 100);
  return functions;
}

const Nccl &nccl() {
  static const Nccl opened = openNccl();
  return opened;
}

void orderLaunches() { setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0); }

std::string describeFailure(ncclResult_t result) {
  std::string text = nccl().ncclGetErrorString(result);
  const char *last = nccl().ncclGetLastError(nullptr);
  std::string reason = last ? last : "";
  std::replace_if(reason.begin(), reason.end(), [](char c) { return c < ' '; }, ' ');
  return reason.empty() ? text : text + ": " + reason;
}

} // namespace shale::rt
