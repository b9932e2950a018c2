// The name that a launcher keeps for a run when it starts the run again.
#include "runtime/program/RunId.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace shale::rt {

static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? printable(value) : "";
}

/// Returns when a process has started, which tells it from earlier ones with its number.
static std::string startOf(pid_t pid) {
  constexpr int64_t most = 4096;
  constexpr int place = 20; // of the time, from the state on
  try {
    std::string boot = readText("/proc/sys/kernel/random/boot_id", most);
    std::string text = readText(format("/proc/%d/stat", (int)pid), most), field;
    // The name, in parentheses, may hold anything.
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    for (int i = 0; i < place && fields >> field; ++i)
      continue;
    return format("%s/%d/%s", boot.substr(0, boot.find('\n')).c_str(), (int)pid, field.c_str());
  } catch (const Error &) {
    return "";
  }
}

std::string runId() {
  if (std::string job = variable("SLURM_JOB_ID"); !job.empty())
    return "Slurm job " + job;
  std::string name = variable("TORCHELASTIC_RUN_ID");
  if (name.empty())
    return "";
  if (name != "none")
    return "torchrun " + name;
  if (variable("LOCAL_WORLD_SIZE") == variable("WORLD_SIZE")) {
    std::string start = startOf(getppid());
    return start.empty() ? "" : "torchrun " + start;
  }
  return "torchrun at " + variable("MASTER_ADDR") + ":" + variable("MASTER_PORT");
}

bool isRestarted() {
  for (const char *name :
       {"SHALE_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"})
    if (const char *count = std::getenv(name); count && std::strtol(count, nullptr, 10) > 0)
      return true;
  return false;
}

} // namespace shale::rt
