// Checks of the limits of this process and machine, before memory is allocated and threads start.
#ifndef SHALE_RUNTIME_PROGRAM_FLAGS_LIMITS_H
#define SHALE_RUNTIME_PROGRAM_FLAGS_LIMITS_H

#include "shale/Runtime.h"

#include <cstdint>
#include <string>

namespace shale::rt {

/// Returns what is wrong with a value of OMP_NUM_THREADS on a machine with `cpus`; "" if nothing
/// is. It is a list of numbers with commas between; libgomp uses the first one.
std::string checkThreadCount(const std::string &value, int cpus);

/// Fails with exit code 64 if OMP_NUM_THREADS is set and unusable.
void checkThreadCount();

/// "12.50 MiB"
std::string mebibytes(int64_t bytes);

/// Returns the planned bytes of a rank in host memory; in both memories with `both`. `fixed`: with
/// code and libraries, which a running process has mapped already.
int64_t plannedBytes(const ShaleProgram &program, bool both, bool fixed);

/// Fails with exit code 78 if the planned memory of `localRanks` ranks exceeds that of the machine
/// or of its control group, or if one rank with its threads exceeds the limit of this process's
/// address space (ulimit -v). The message has what is planned and what is there.
void checkMemory(const ShaleProgram &program, int localRanks);

/// Starts `threads` threads at once and ends them; fails with exit code 78 if that is not possible.
/// libgomp would end the process.
void checkThreadsStart(int threads);

} // namespace shale::rt

#endif
