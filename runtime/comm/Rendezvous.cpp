// Reads the launcher's environment. Names: torchrun and Open MPI as documented;
// Slurm's from srun(1).
#include "runtime/comm/Rendezvous.h"
#include "runtime/comm/mesh/Secret.h"
#include "runtime/core/Error.h"

#include <cctype>
#include <climits>
#include <cstdlib>

namespace shale::rt {

static const char *get(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

static std::string text(const char *name) {
  const char *value = get(name);
  return value ? value : "";
}

static int number(const char *name, long low, long high) {
  const char *value = get(name);
  if (!value)
    fail(SHALE_EXIT_USAGE, "%s is not set in the launcher's environment", name);
  char *end = nullptr;
  long result = std::strtol(value, &end, 10);
  if (*end || result < low || result > high)
    fail(SHALE_EXIT_USAGE, "%s=%s in the environment is not a number from %ld to %ld", name, value,
         low, high);
  return static_cast<int>(result);
}

/// "node[01-04,07],x" -> "node01".
static std::string firstHost(const std::string &list) {
  size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return list.substr(0, comma);
  size_t end = list.find_first_of("-,]", bracket + 1);
  return list.substr(0, bracket) +
         list.substr(bracket + 1, end == std::string::npos ? std::string::npos : end - bracket - 1);
}

/// torchrun's own store uses MASTER_PORT, so Shale's uses the next port.
static void readMaster(Rendezvous &rendezvous) {
  if (const char *address = get("MASTER_ADDR"))
    rendezvous.address = address;
  if (get("SHALE_PORT"))
    rendezvous.port = number("SHALE_PORT", 1, 65535);
  else if (get("MASTER_PORT"))
    rendezvous.port = number("MASTER_PORT", 1, 65534) + 1;
}

static void readTorchrun(Rendezvous &rendezvous) {
  rendezvous.launcher = "torchrun";
  rendezvous.worldSize = number("WORLD_SIZE", 1, INT_MAX);
  rendezvous.rank = number("RANK", 0, INT_MAX);
  rendezvous.localRank = get("LOCAL_RANK") ? number("LOCAL_RANK", 0, INT_MAX) : 0;
  rendezvous.localSize = get("LOCAL_WORLD_SIZE") ? number("LOCAL_WORLD_SIZE", 1, INT_MAX) : 1;
  rendezvous.run = text("TORCHELASTIC_RUN_ID");
  readMaster(rendezvous);
}

static void readMpirun(Rendezvous &rendezvous) {
  rendezvous.launcher = "mpirun";
  rendezvous.worldSize = number("OMPI_COMM_WORLD_SIZE", 1, INT_MAX);
  rendezvous.rank = number("OMPI_COMM_WORLD_RANK", 0, INT_MAX);
  rendezvous.localRank =
      get("OMPI_COMM_WORLD_LOCAL_RANK") ? number("OMPI_COMM_WORLD_LOCAL_RANK", 0, INT_MAX) : 0;
  rendezvous.localSize =
      get("OMPI_COMM_WORLD_LOCAL_SIZE") ? number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, INT_MAX) : 1;
  rendezvous.run = text("PMIX_NAMESPACE");
  // A folder of this mpirun on this host: two of them may number their jobs alike.
  if (rendezvous.localSize == rendezvous.worldSize)
    rendezvous.run += text("PMIX_SERVER_TMPDIR");
  readMaster(rendezvous);
}

static void readSlurm(Rendezvous &rendezvous) {
  rendezvous.launcher = "srun";
  rendezvous.worldSize = number("SLURM_NTASKS", 1, INT_MAX);
  rendezvous.rank = number("SLURM_PROCID", 0, INT_MAX);
  rendezvous.localRank = get("SLURM_LOCALID") ? number("SLURM_LOCALID", 0, INT_MAX) : 0;
  if (get("SLURM_STEP_NUM_NODES") && number("SLURM_STEP_NUM_NODES", 1, INT_MAX) == 1)
    rendezvous.localSize = rendezvous.worldSize;
  rendezvous.run = text("SLURM_JOB_ID") + "." + text("SLURM_STEP_ID");
  readMaster(rendezvous);
  const char *nodes = get("SLURM_STEP_NODELIST");
  if (!nodes)
    nodes = get("SLURM_JOB_NODELIST");
  if (rendezvous.address.empty() && nodes)
    rendezvous.address = firstHost(nodes);
  if (rendezvous.port == 0 && get("SLURM_JOB_ID"))
    rendezvous.port = 20000 + number("SLURM_JOB_ID", 0, INT_MAX) % 20000;
}

Rendezvous rendezvousFromEnvironment() {
  Rendezvous rendezvous;
  if (get("SHALE_RANK")) {
    rendezvous.launcher = "shale";
    rendezvous.rank = rendezvous.localRank = number("SHALE_RANK", 0, INT_MAX);
    rendezvous.worldSize = rendezvous.localSize = number("SHALE_WORLD_SIZE", 1, INT_MAX);
    rendezvous.run = text("SHALE_RUN");
  } else if (get("RANK") && get("WORLD_SIZE")) {
    readTorchrun(rendezvous);
  } else if (get("OMPI_COMM_WORLD_RANK")) {
    readMpirun(rendezvous);
  } else if (get("SLURM_PROCID") && get("SLURM_STEP_ID") && get("SLURM_NTASKS") &&
             number("SLURM_NTASKS", 1, INT_MAX) > 1) {
    readSlurm(rendezvous);
  }
  if (rendezvous.rank >= rendezvous.worldSize)
    fail(
        SHALE_EXIT_USAGE,
        "the environment of %s sets rank %d of %d: ranks must be from 0 to the number of ranks - 1",
        rendezvous.launcher.c_str(), rendezvous.rank, rendezvous.worldSize);
  bool named = rendezvous.localSize == rendezvous.worldSize && !rendezvous.run.empty();
  if (rendezvous.worldSize > 1 && !named && (rendezvous.address.empty() || rendezvous.port == 0))
    fail(SHALE_EXIT_USAGE,
         "%s sets no rendezvous address: set MASTER_ADDR to the host of rank 0 "
         "and MASTER_PORT to a free port on that host",
         rendezvous.launcher.c_str());
  return rendezvous;
}

void setRunEnvironment(int worldSize) {
  Bytes32 name = randomBytes(), token = randomBytes();
  setenv("SHALE_WORLD_SIZE", std::to_string(worldSize).c_str(), 1);
  setenv("SHALE_RUN", hex(name.data(), 16).c_str(), 1);
  setenv("SHALE_TOKEN", hex(token.data(), token.size()).c_str(), 1);
}

} // namespace shale::rt
