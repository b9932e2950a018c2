// Memory of this host.
#ifndef SHALE_RUNTIME_CORE_HOSTMEMORY_H
#define SHALE_RUNTIME_CORE_HOSTMEMORY_H

#include <cstdint>
#include <string>

namespace shale::rt {

/// Returns the bytes of memory that processes of this host can still take without swapping: what
/// the kernel calls available, or less if a control group (version 1 or 2) of this process or its
/// limit on address space (`ulimit -v`) leaves less. INT64_MAX if nothing is known.
int64_t availableHostBytes();

/// The three limits of which availableHostBytes() returns the least: memory that the kernel reports
/// as available, what is left of the limits of control groups, and of the address space. INT64_MAX:
/// not known, or no limit. `root` replaces "/" in tests.
int64_t availableInKernel(const std::string &root);
int64_t availableInGroups(const std::string &root);
int64_t availableAddresses();

/// Returns the bytes of this host's memory with its swap space, and the smallest limit, also with
/// swap space, of the control groups of this process. INT64_MAX: not known, or no limit.
int64_t memoryOfHost(const std::string &root = "");
int64_t limitOfGroups(const std::string &root = "");

/// Returns the bytes of address space that this process uses; 0 if that is not known.
int64_t usedAddresses();

} // namespace shale::rt

#endif
