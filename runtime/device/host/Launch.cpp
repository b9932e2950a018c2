// Runs kernels on threads; what generated kernels call.
#include "runtime/core/Threads.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <sched.h>

namespace shale::rt {

void launchOnThreads(const Launch &launch) {
  if (launch.rows <= 0)
    return;
  auto kernel = reinterpret_cast<ShaleKernel>(const_cast<void *>(launch.kernel));
  int64_t grain = std::max<int64_t>(launch.grain, 1);
  int64_t blocks = (launch.rows + grain - 1) / grain;
  if (blocks == 1 || shale_in_parallel()) {
    kernel(launch.args, 0, launch.rows);
    return;
  }
  onThreads([&](int64_t thread, int64_t threads) {
    int64_t begin = blocks * thread / threads * grain;
    int64_t end = std::min(blocks * (thread + 1) / threads * grain, launch.rows);
    if (begin < end)
      kernel(launch.args, begin, end);
  });
}

int hostThreads() { return shale_threads(); }

void setHostThreads(int threads) { shale_set_threads(threads); }

int availableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&set));
}

} // namespace shale::rt

extern "C" void *shale_scratch(int64_t bytes, int64_t offset) {
  return shale::rt::threadScratch(bytes) + offset;
}
