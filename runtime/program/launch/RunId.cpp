// The name that a launcher keeps for a run when it starts the run again.
#include "runtime/program/launch/RunId.h"
#include "runtime/core/Error.h"
#include "runtime/core/Process.h"

#include <cstdlib>
#include <unistd.h>

namespace shale::rt {

static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? printable(value) : "";
}

/// Returns the name of a process on all hosts; "" if it is not known.
static std::string nameOf(pid_t pid) {
  std::string boot = bootId(), start = startOf(pid);
  return boot.empty() || start.empty() ? ""
                                       : format("%s/%d/%s", boot.c_str(), (int)pid, start.c_str());
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
    std::string parent = nameOf(getppid());
    return parent.empty() ? "" : "torchrun " + parent;
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
