// The rank of this process and its rendezvous point: read from the environment of
// torchrun, mpirun, srun or Shale's own launcher.
#ifndef SHALE_RUNTIME_COMM_RENDEZVOUS_H
#define SHALE_RUNTIME_COMM_RENDEZVOUS_H

#include <string>

namespace shale::rt {

struct Rendezvous {
  int rank = 0;
  int worldSize = 1;
  int localRank = 0;
  int localSize = 1;
  std::string launcher;  // "", "shale", "torchrun", "mpirun", "srun"
  std::string storePath; // a folder that all ranks see; if empty: address and port
  std::string address;
  int port = 0;
};

/// Reads the rendezvous from the environment; fails with exit code 64 if that is incomplete or
/// contradictory.
Rendezvous rendezvousFromEnvironment();

} // namespace shale::rt

#endif
