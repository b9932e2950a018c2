// Starts N ranks of this program on this host and watches them.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCHER_H
#define SHALE_RUNTIME_PROGRAM_LAUNCHER_H

namespace shale::rt {

/// Executes /proc/self/exe N times with the rank's environment and waits for
/// all; forwards signals; when one fails the others are ended. Returns the exit
/// code: that of the rank that failed first, of several at once one that is not
/// 76 (the consequence of another's end). Must run before OpenMP does anything.
int launchRanks(int count, char **argv);

} // namespace shale::rt

#endif
