// Checks of the limits of this process and machine.
#include "runtime/program/flags/Limits.h"
#include "runtime/core/Error.h"
#include "runtime/core/HostMemory.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <future>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shale::rt {

std::string checkThreadCount(const std::string &value, int cpus) {
  long most = std::max(256L, 4L * cpus);
  for (size_t at = 0; at <= value.size();) {
    size_t end = std::min(value.find(',', at), value.size());
    std::string one = value.substr(at, end - at);
    size_t from = one.find_first_not_of(' '), to = one.find_last_not_of(' ');
    one = from == std::string::npos ? "" : one.substr(from, to - from + 1);
    bool digits = !one.empty() && one.find_first_not_of("0123456789") == std::string::npos;
    long count = digits && one.size() < 10 ? std::atol(one.c_str()) : 0;
    if (count < 1 || count > most)
      return format("OMP_NUM_THREADS=%.60s in the environment is not a number of threads per rank "
                    "from 1 to %ld",
                    value.c_str(), most);
    at = end + 1;
  }
  return "";
}

void checkThreadCount() {
  const char *value = std::getenv("OMP_NUM_THREADS");
  std::string wrong = value ? checkThreadCount(value, availableCpus()) : "";
  if (!wrong.empty())
    fail(SHALE_EXIT_USAGE, "%s", wrong.c_str());
}

namespace {

constexpr const char *kRemedy = "compile with a lower --memory-limit, fewer rows per rank, more "
                                "ranks, --shard full, --recompute block or --offload";

} // namespace

std::string mebibytes(int64_t bytes) {
  return format("%.2f MiB", static_cast<double>(bytes) / (1 << 20));
}

int64_t plannedBytes(const ShaleProgram &program, bool both, bool fixed) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < program.plan_line_count; ++i) {
    const ShalePlanLine &line = program.plan[i];
    if ((both || line.space == SHALE_SPACE_HOST) &&
        (fixed || line.category != SHALE_CATEGORY_FIXED))
      bytes += line.bytes;
  }
  return bytes;
}

void checkMemory(const ShaleProgram &program, int localRanks) {
  bool oneMemory = !program.device_code;
  int64_t planned = plannedBytes(program, oneMemory, true);
  int64_t machine = memoryOfHost(), there = std::min(machine, limitOfGroups());
  if (planned > there / localRanks)
    fail(SHALE_EXIT_NO_FIT,
         "the plan takes %s per rank, and %d rank%s on this machine %s, but %s has %s: %s",
         mebibytes(planned).c_str(), localRanks, localRanks == 1 ? "" : "s",
         mebibytes(planned * localRanks).c_str(),
         there == machine ? "it" : "the process's control group", mebibytes(there).c_str(),
         kRemedy);
  rlimit space{}, stack{};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY)
    return;
  getrlimit(RLIMIT_STACK, &stack);
  int64_t perThread = stack.rlim_cur == RLIM_INFINITY ? 2 << 20 : int64_t(stack.rlim_cur);
  const char *asked = std::getenv("OMP_NUM_THREADS");
  int threads = asked ? std::atoi(asked) : std::max(1, availableCpus() / localRanks);
  threads += 4; // of the communicator, its watch, signals and output
  int64_t stacks = threads * std::min<int64_t>(perThread, 1 << 30);
  constexpr int64_t libraries = 16 << 20; // code that oneDNN generates, buffers of connections
  // Code and libraries are mapped already.
  int64_t ofPlan = plannedBytes(program, oneMemory, false), used = usedAddresses() + libraries;
  int64_t needed = used + ofPlan + stacks;
  if (needed > int64_t(std::min<rlim_t>(space.rlim_cur, LLONG_MAX)))
    fail(SHALE_EXIT_NO_FIT,
         "this rank needs %s of address space: %s of the plan, %s of stacks for %d threads, and %s "
         "of code and libraries. The limit (ulimit -v) is %s: raise it, or %s",
         mebibytes(needed).c_str(), mebibytes(ofPlan).c_str(), mebibytes(stacks).c_str(), threads,
         mebibytes(used).c_str(), mebibytes(int64_t(space.rlim_cur)).c_str(), kRemedy);
}

void checkThreadsStart(int threads) {
  std::vector<std::thread> started;
  std::promise<void> gate; // opened when all were started
  std::shared_future<void> opened = gate.get_future().share();
  std::string wrong;
  try {
    for (int i = 0; i < threads; ++i)
      started.emplace_back([opened] { opened.wait(); });
  } catch (const std::system_error &error) {
    wrong = error.code().message();
  }
  gate.set_value();
  for (std::thread &thread : started)
    thread.join();
  if (!wrong.empty())
    fail(
        SHALE_EXIT_NO_FIT,
        "cannot start %d threads (%zu started): %s; set OMP_NUM_THREADS to fewer threads per rank, "
        "or raise the limits of processes (ulimit -u) and of address space (ulimit -v)",
        threads, started.size(), wrong.c_str());
}

} // namespace shale::rt
