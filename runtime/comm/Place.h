// Which rank this process is, and where it meets its peers: read from the
// environment of torchrun, mpirun, srun or Shale's own launcher.
#ifndef SHALE_RUNTIME_COMM_PLACE_H
#define SHALE_RUNTIME_COMM_PLACE_H

#include <string>

namespace shale::rt {

struct Place {
  int rank = 0;
  int worldSize = 1;
  int localRank = 0;
  int localSize = 1;
  std::string launcher;  // "", "shale", "torchrun", "mpirun", "srun"
  std::string storePath; // a folder all ranks see; else address and port
  std::string address;
  int port = 0;
};

/// Exit code 64 when the environment is half set or contradicts itself.
Place placeFromEnvironment();

} // namespace shale::rt

#endif
