// What tells one process from all others, on all hosts and over their restarts.
#include "runtime/core/Process.h"

#include <fstream>
#include <sstream>

namespace shale::rt {

static std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string bootId() { return firstLine("/proc/sys/kernel/random/boot_id"); }

std::string startOf(pid_t pid) {
  std::string line = firstLine("/proc/" + std::to_string(pid) + "/stat");
  // The name, in parentheses, may have any characters. The 20th field after it is the start.
  size_t end = line.rfind(')');
  std::istringstream fields(end == std::string::npos ? "" : line.substr(end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i)
    if (!(fields >> field) || (i == 0 && (field == "Z" || field == "X"))) // ended, but not reaped
      return "";
  return field;
}

} // namespace shale::rt
