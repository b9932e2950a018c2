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

/// The parts of it; `root` replaces "/" in tests.
int64_t availableInKernel(const std::string &root);
int64_t availableInGroups(const std::string &root);
int64_t availableAddresses();

} // namespace shale::rt

#endif
