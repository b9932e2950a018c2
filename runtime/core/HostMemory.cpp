// Reads /proc/meminfo and the limits of control groups.
#include "runtime/core/HostMemory.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t unknown = INT64_MAX;

/// Returns a file's only number; `unknown` if there is none, as in "max".
int64_t numberIn(const std::string &path) {
  std::ifstream file(path);
  int64_t value = unknown;
  return file >> value && value >= 0 ? value : unknown;
}

/// Returns the number of the line that begins with `field`; `unknown` without it.
int64_t fieldIn(const std::string &path, const std::string &field) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = unknown;
    if (words >> name >> value && name == field)
      return value;
  }
  return unknown;
}

/// The names of a control group's files, by version.
struct GroupFiles {
  const char *limit, *usage, *swap; // `swap` limits swap space; of version 1, its sum with memory
};
constexpr GroupFiles filesOfOne = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                   "/memory.memsw.limit_in_bytes"};
constexpr GroupFiles filesOfTwo = {"/memory.max", "/memory.current", "/memory.swap.max"};

/// What one group leaves: its limit, less what it uses beside files that can be read again.
int64_t leftIn(const std::string &group, const GroupFiles &names) {
  int64_t limit = numberIn(group + names.limit), usage = numberIn(group + names.usage);
  if (limit == unknown || usage == unknown)
    return unknown;
  int64_t files = fieldIn(group + "/memory.stat", "inactive_file");
  if (files != unknown)
    usage -= std::min(usage, files);
  return std::max<int64_t>(0, limit - usage);
}

/// The limit of one group with swap space, of which the host has `hostSwap`.
int64_t limitIn(const std::string &group, const GroupFiles &names, int64_t hostSwap) {
  int64_t limit = numberIn(group + names.limit), swap = numberIn(group + names.swap);
  if (limit == unknown)
    return unknown;
  if (&names == &filesOfOne && swap != unknown)
    return swap; // a sum
  swap = std::min(swap, hostSwap);
  return limit > unknown - swap ? unknown : limit + swap;
}

/// Returns the bytes of a line of /proc/meminfo; `unknown` without it.
int64_t meminfo(const std::string &root, const char *field) {
  int64_t kibibytes = fieldIn(root + "/proc/meminfo", field);
  return kibibytes > unknown / 1024 ? unknown : kibibytes * 1024;
}

/// The host's swap space.
int64_t swapOf(const std::string &root) {
  int64_t swap = meminfo(root, "SwapTotal:");
  return swap == unknown ? 0 : swap;
}

/// Returns the least that `of` returns for the control groups of this process and those above them,
/// whose limits hold, too.
template <typename Of> int64_t leastOfGroups(const std::string &root, const Of &of) {
  int64_t least = unknown;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) { // "0::/path", "5:memory:/path"
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    bool isNew = controllers.empty();
    if (!isNew && ("," + controllers + ",").find(",memory,") == std::string::npos)
      continue;
    std::string mount = root + (isNew ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    // Inside of a container the path may not exist.
    for (std::string path = line.substr(second + 1);;) {
      least = std::min(least, of(mount + path, isNew ? filesOfTwo : filesOfOne));
      size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos)
        break;
      path.resize(slash);
    }
  }
  return least;
}
} // namespace

int64_t availableInKernel(const std::string &root) { return meminfo(root, "MemAvailable:"); }

int64_t availableInGroups(const std::string &root) { return leastOfGroups(root, leftIn); }

int64_t limitOfGroups(const std::string &root) {
  return leastOfGroups(root,
                       [swap = swapOf(root)](const std::string &group, const GroupFiles &names) {
                         return limitIn(group, names, swap);
                       });
}

int64_t memoryOfHost(const std::string &root) {
  int64_t total = meminfo(root, "MemTotal:"), swap = swapOf(root);
  return total > unknown - swap ? unknown : total + swap;
}

int64_t usedAddresses() {
  int64_t pages = numberIn("/proc/self/statm");
  return pages == unknown ? 0 : pages * sysconf(_SC_PAGESIZE);
}

int64_t availableAddresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return unknown;
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - usedAddresses());
}

int64_t availableHostBytes() {
  return std::min({availableInKernel(""), availableInGroups(""), availableAddresses()});
}

} // namespace shale::rt
