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

/// What one group leaves: its limit, less what it uses beside files that can be read again.
int64_t leftIn(const std::string &group, const char *limitFile, const char *usageFile) {
  int64_t limit = numberIn(group + "/" + limitFile), usage = numberIn(group + "/" + usageFile);
  if (limit == unknown || usage == unknown)
    return unknown;
  int64_t files = fieldIn(group + "/memory.stat", "inactive_file");
  if (files != unknown)
    usage -= std::min(usage, files);
  return std::max<int64_t>(0, limit - usage);
}
} // namespace

int64_t availableInKernel(const std::string &root) {
  int64_t kibibytes = fieldIn(root + "/proc/meminfo", "MemAvailable:");
  return kibibytes > unknown / 1024 ? unknown : kibibytes * 1024;
}

int64_t availableInGroups(const std::string &root) {
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
    // The limits of all groups above hold, too. Inside of a container the path may not exist.
    for (std::string path = line.substr(second + 1);;) {
      std::string group = mount + path;
      least =
          std::min(least, isNew ? leftIn(group, "memory.max", "memory.current")
                                : leftIn(group, "memory.limit_in_bytes", "memory.usage_in_bytes"));
      size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos)
        break;
      path.resize(slash);
    }
  }
  return least;
}

int64_t availableAddresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return unknown;
  int64_t pages = numberIn("/proc/self/statm");
  int64_t used = pages == unknown ? 0 : pages * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used);
}

int64_t availableHostBytes() {
  return std::min({availableInKernel(""), availableInGroups(""), availableAddresses()});
}

} // namespace shale::rt
