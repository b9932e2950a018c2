// What tells one process from all others, on all hosts and over their restarts.
#ifndef SHALE_RUNTIME_CORE_PROCESS_H
#define SHALE_RUNTIME_CORE_PROCESS_H

#include <string>
#include <sys/types.h>

namespace shale::rt {

/// Returns the kernel's boot ID, which all containers of a host share; "" if it is not known.
std::string bootId();

/// Returns when a process has started, in ticks after the boot, which tells it from earlier ones
/// with its number; "" if there is none, or if it has ended.
std::string startOf(pid_t pid);

} // namespace shale::rt

#endif
