// Cores of a host are shared out among its ranks, which learn of each other when
// they are connected: under torchrun, mpirun and srun nobody else does it.
#ifndef SHALE_RUNTIME_COMM_CORES_H
#define SHALE_RUNTIME_COMM_CORES_H

#include "runtime/comm/Communicator.h"

#include <deque>
#include <string>
#include <vector>

namespace shale::rt {

/// What one rank may run on.
struct RankCores {
  std::string host;
  /// No vector<int>: libgloo would take this program's code for its own, and its memory would be counted as ours.
  std::deque<int> cpus;
};

/// Threads of each rank: every core is shared equally by the ranks of its host that
/// may run on it; at least 1.
std::vector<int> shareCores(const std::vector<RankCores> &ranks);

/// Every rank calls it: this rank's share, the same rule on all ranks.
int shareOfCores(Communicator &communicator, int rank, int worldSize);

} // namespace shale::rt

#endif
