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
  std::string launcher; // "", "shale", "torchrun", "mpirun", "srun"
  std::string run;      // names the run among those of this launcher; "": it has no name
  std::string folder;   // of the run's output: on one host, no two runs use one at a time
  std::string address;  // of rank 0's host, and the port there; not used on one host
  int port = 0;
  std::string interface; // network interface, by name or address; "": the one towards `address`
  bool insecure = false; // whether ranks on several hosts may do without a secret
};

/// Reads the rendezvous from the environment; fails with exit code 64 if that is incomplete or
/// contradictory.
Rendezvous rendezvousFromEnvironment();

/// Sets the environment in which ranks of a new run on this host find each other, all but the
/// rank's number: a name that no other run has, and a secret.
void setRunEnvironment(int worldSize);

} // namespace shale::rt

#endif
