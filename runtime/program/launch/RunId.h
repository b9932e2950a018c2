// The name that a launcher keeps for a run when it starts the run again.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_RUNID_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_RUNID_H

#include <string>

namespace shale::rt {

/// Returns the same text in all starts of a run, on all its ranks, and another one in other runs:
/// the number of the Slurm job, or the name of torchrun's run. Ranks of a torchrun without a name
/// on one host are named by the process of torchrun, on several hosts by the address of the first
/// one.
/// "": no such launcher. Checkpoints keep it, so that a start finds those of its own run.
std::string runId();

/// Whether a launcher has started this process again after a failure: Shale's own, torchrun or
/// Slurm. Such a run goes on from the checkpoints of the run before.
bool isRestarted();

} // namespace shale::rt

#endif
