// Distributes the cores of a host among its ranks once they are connected: torchrun,
// mpirun and srun do not do it.
#ifndef SHALE_RUNTIME_COMM_CORES_H
#define SHALE_RUNTIME_COMM_CORES_H

#include "runtime/comm/Peers.h"

#include <deque>
#include <string>
#include <vector>

namespace shale::rt {

/// The host and CPUs that one rank may run on.
struct RankCores {
  std::string host;
  /// Not vector<int>: libgloo would bind to this program's instantiation, and its memory would be
  /// counted as ours.
  std::deque<int> cpus;
};

/// Returns the number of threads of each rank, at least 1: every core is shared equally
/// by the ranks of its host that may run on it.
std::vector<int> shareCores(const std::vector<RankCores> &ranks);

/// Returns this rank's number of threads, by shareCores(). Every rank calls it.
int shareOfCores(Peers &peers, int rank, int worldSize);

} // namespace shale::rt

#endif
