// Whether this CPU runs what the program was compiled for.
#include "runtime/core/Error.h"
#include "runtime/device/host/Host.h"

namespace shale::rt {

void checkCpu(const std::string &target) {
  bool known = true, runs = true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (target.find("x86-64-v4") != std::string::npos)
    runs = __builtin_cpu_supports("x86-64-v4");
  else if (target.find("x86-64-v3") != std::string::npos)
    runs = __builtin_cpu_supports("x86-64-v3");
  else
    known = target.find("x86-64") != std::string::npos;
#else
  runs = target.find("x86-64") == std::string::npos;
#endif
  if (known && !runs)
    fail(SHALE_EXIT_USAGE,
         "this program was compiled for %s, which this CPU is not; compile it "
         "with --target cpu:x86-64-v3 or cpu:native on this machine",
         target.c_str());
}

} // namespace shale::rt
