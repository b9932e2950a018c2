// Starts N ranks of this program on this host and watches them.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCHER_H
#define SHALE_RUNTIME_PROGRAM_LAUNCHER_H

namespace shale::rt {

/// Executes /proc/self/exe N times with the rank's environment and waits for
/// all; forwards signals; when one fails the others are ended. Returns the exit
/// code: that of the rank that failed first, of several at once one that is not
/// 76 (the consequence of another's end). Must run before OpenMP does anything.
int launchRanks(int count, char **argv);

/// Executes /proc/self/exe again, unless the environment has it already, with
/// glibc's per-thread caches of freed memory off. To align a buffer glibc cuts
/// off what lies before and behind, and such a cut, small enough, goes to the
/// cache, where it stays apart: what is freed then lacks these bytes for the
/// next buffer of its size, which is taken from new memory. oneDNN asks for an
/// aligned buffer a product: a thread was seen to keep 26 MB for buffers
/// of 3.6. Threads of `localRanks` ranks that outnumber the cores do not spin while
/// others work. Returns where nothing is to be done or it cannot be done.
void executeWithoutCaches(char **argv, int localRanks);

} // namespace shale::rt

#endif
