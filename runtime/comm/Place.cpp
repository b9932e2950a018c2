// Reads the launcher's environment. Names: torchrun and Open MPI as documented;
// Slurm's from srun(1).
#include "runtime/comm/Place.h"
#include "runtime/core/Error.h"

#include <cctype>
#include <climits>
#include <cstdlib>

namespace shale::rt {

static const char *get(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
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
static void readMaster(Place &place) {
  if (const char *address = get("MASTER_ADDR"))
    place.address = address;
  if (get("SHALE_PORT"))
    place.port = number("SHALE_PORT", 1, 65535);
  else if (get("MASTER_PORT"))
    place.port = number("MASTER_PORT", 1, 65534) + 1;
}

static void readTorchrun(Place &place) {
  place.launcher = "torchrun";
  place.worldSize = number("WORLD_SIZE", 1, INT_MAX);
  place.rank = number("RANK", 0, INT_MAX);
  place.localRank = get("LOCAL_RANK") ? number("LOCAL_RANK", 0, INT_MAX) : 0;
  place.localSize = get("LOCAL_WORLD_SIZE") ? number("LOCAL_WORLD_SIZE", 1, INT_MAX) : 1;
  readMaster(place);
}

static void readMpirun(Place &place) {
  place.launcher = "mpirun";
  place.worldSize = number("OMPI_COMM_WORLD_SIZE", 1, INT_MAX);
  place.rank = number("OMPI_COMM_WORLD_RANK", 0, INT_MAX);
  place.localRank =
      get("OMPI_COMM_WORLD_LOCAL_RANK") ? number("OMPI_COMM_WORLD_LOCAL_RANK", 0, INT_MAX) : 0;
  place.localSize =
      get("OMPI_COMM_WORLD_LOCAL_SIZE") ? number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, INT_MAX) : 1;
  readMaster(place);
  // On one host, mpirun's private folder is the rendezvous point; mpirun removes
  // it when it ends.
  const char *session = get("PMIX_SERVER_TMPDIR");
  if (place.address.empty() && place.localSize == place.worldSize && session)
    place.storePath = std::string(session) + "/shale";
}

static void readSlurm(Place &place) {
  place.launcher = "srun";
  place.worldSize = number("SLURM_NTASKS", 1, INT_MAX);
  place.rank = number("SLURM_PROCID", 0, INT_MAX);
  place.localRank = get("SLURM_LOCALID") ? number("SLURM_LOCALID", 0, INT_MAX) : 0;
  readMaster(place);
  const char *nodes = get("SLURM_STEP_NODELIST");
  if (!nodes)
    nodes = get("SLURM_JOB_NODELIST");
  if (place.address.empty() && nodes)
    place.address = firstHost(nodes);
  if (place.port == 0 && get("SLURM_JOB_ID"))
    place.port = 20000 + number("SLURM_JOB_ID", 0, INT_MAX) % 20000;
}

Place placeFromEnvironment() {
  Place place;
  if (get("SHALE_RANK")) {
    place.launcher = "shale";
    place.rank = place.localRank = number("SHALE_RANK", 0, INT_MAX);
    place.worldSize = place.localSize = number("SHALE_WORLD_SIZE", 1, INT_MAX);
    if (const char *store = get("SHALE_STORE"))
      place.storePath = store;
  } else if (get("RANK") && get("WORLD_SIZE")) {
    readTorchrun(place);
  } else if (get("OMPI_COMM_WORLD_RANK")) {
    readMpirun(place);
  } else if (get("SLURM_PROCID") && get("SLURM_STEP_ID") && get("SLURM_NTASKS") &&
             number("SLURM_NTASKS", 1, INT_MAX) > 1) {
    readSlurm(place);
  }
  if (place.rank >= place.worldSize)
    fail(SHALE_EXIT_USAGE, "%s says rank %d of %d", place.launcher.c_str(), place.rank,
         place.worldSize);
  if (place.worldSize > 1 && place.storePath.empty() && (place.address.empty() || place.port == 0))
    fail(SHALE_EXIT_USAGE,
         "%s does not say where the ranks meet: set MASTER_ADDR to rank 0's "
         "host "
         "and MASTER_PORT to a free port there",
         place.launcher.c_str());
  return place;
}

} // namespace shale::rt
