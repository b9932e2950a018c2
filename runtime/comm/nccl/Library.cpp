// Opens NCCL.
#include "runtime/comm/nccl/Library.h"
#include "runtime/device/cuda/Driver.h"

namespace shale::rt {

static Nccl openNccl() {
  constexpr const char *name = "libnccl.so.2";
  constexpr int least = 22800;
  void *library =
      cuda::openLibrary(name, "ranks on GPUs need NCCL 2.28 or later, or --comm staged");
  Nccl functions;
#define SHALE_FIND(function)                                                                       \
  functions.function = reinterpret_cast<decltype(functions.function)>(                             \
      cuda::findFunction(library, name, #function));
  SHALE_NCCL_FUNCTIONS(SHALE_FIND)
#undef SHALE_FIND
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

} // namespace shale::rt
