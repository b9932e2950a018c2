// A trial of a save, before the first step: what would fail at the first save, hours later, fails
// at once.
#ifndef SHALE_RUNTIME_CHECKPOINT_TRIAL_H
#define SHALE_RUNTIME_CHECKPOINT_TRIAL_H

#include "runtime/comm/Peers.h"

#include <cstdint>
#include <string>

namespace shale::rt {

/// Every rank calls it. Rank 0 makes a folder below `out`; each rank finds it at its own `out` and
/// writes and syncs a small file in it; rank 0 renames the folder and removes it. The names are as
/// long as those of the checkpoint of step `steps`, the last one. If something fails, nothing
/// remains, and all ranks throw with exit code 74; the messages give the path, the meaning of the
/// error and what to do.
void trySave(int rank, Peers &peers, const std::string &out, int64_t steps);

} // namespace shale::rt

#endif
