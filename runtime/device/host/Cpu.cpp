// Checks that this CPU supports the target that the program was compiled for.
#include "runtime/core/Error.h"
#include "runtime/device/host/Host.h"

#include <cstdlib>

namespace shale::rt {

int cpuLevel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("x86-64-v4")   ? 4
         : __builtin_cpu_supports("x86-64-v3") ? 3
         : __builtin_cpu_supports("x86-64-v2") ? 2
                                               : 1;
#else
  return 0;
#endif
}

void checkCpu(const std::string &target, int level) {
  size_t at = target.find("x86-64");
  if (at == std::string::npos)
    return;
  int needed = target.compare(at, 8, "x86-64-v") == 0 ? std::atoi(target.c_str() + at + 8) : 1;
  if (level < needed)
    fail(SHALE_EXIT_UNAVAILABLE,
         "this program was compiled for %s, which this CPU does not support; compile it "
         "with --target cpu:x86-64-v3, or with cpu:native on this machine",
         target.c_str());
}

} // namespace shale::rt
