// Starts N ranks of this program on this host and watches them.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_LAUNCHER_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_LAUNCHER_H

#include <string>

namespace shale::rt {

/// Executes /proc/self/exe `count` times, each with the environment of its rank, and
/// waits for all. Forwards signals; if one rank fails, ends the others. Returns the
/// exit code of the rank that failed first; of several that failed at the same time,
/// one that is not 76 (which follows from the failure of a peer). After a crash or the
/// failure of a peer it starts all ranks again, at most `restarts` times without a newer
/// checkpoint in the folder `out` (Restarts.h). Must be called before OpenMP starts and
/// before other threads exist.
int launchRanks(int count, char **argv, int restarts, const std::string &out);

/// Executes /proc/self/exe again with glibc's per-thread caches (tcache) off, unless
/// the environment sets them already. To align a buffer, glibc cuts off the memory
/// before and after it; a small enough cut goes to the cache and is not merged back.
/// When the buffer is freed, the chunk lacks these bytes for the next buffer of the
/// same size, which is taken from new memory. oneDNN allocates an aligned buffer per
/// matmul: a thread was seen to keep 26 MB for buffers of 3.6 MB. If `localRanks`
/// exceeds the number of cores, also makes idle OpenMP threads sleep instead of spin.
/// Returns if nothing is to be done or it cannot be done.
void executeWithoutCaches(char **argv, int localRanks);

} // namespace shale::rt

#endif
