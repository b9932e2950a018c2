#include "Faults.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <unistd.h>
#include <vector>

using namespace shale::stub;

namespace {

struct Fault {
  std::string function, error;
  long call; // 0: every call
};

std::vector<Fault> parseFaults(const std::string &text) {
  std::vector<Fault> faults;
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    size_t equal = entry.find('='), at = entry.find('@');
    if (equal == std::string::npos || equal == 0 || equal + 1 == entry.size())
      stop("SHALE_STUB_FAIL: '" + entry + "' is not FUNCTION[@N]=ERROR");
    Fault fault{entry.substr(0, std::min(at, equal)), entry.substr(equal + 1), 0};
    if (at < equal) {
      char *end;
      fault.call = std::strtol(entry.c_str() + at + 1, &end, 10);
      if (fault.call < 1 || end != entry.c_str() + equal)
        stop("SHALE_STUB_FAIL: '" + entry + "' has no positive number after @");
    }
    faults.push_back(fault);
  }
  return faults;
}

/// 0: it is none.
int signalNamed(const std::string &name) {
  return name == "SIGINT" ? SIGINT : name == "SIGTERM" ? SIGTERM : 0;
}

} // namespace

int shale::stub::injected(const char *function,
                          const std::function<int(const std::string &)> &parse) {
  static std::mutex mutex;
  static std::string parsed;
  static std::vector<Fault> faults;
  static std::map<std::string, long> calls;
  std::lock_guard<std::mutex> lock(mutex);
  // A process may set the variable after a fork.
  if (std::string text = setting("SHALE_STUB_FAIL", ""); text != parsed) {
    faults = parseFaults(text);
    parsed = text;
  }
  if (faults.empty())
    return 0;
  long call = ++calls[function];
  for (const Fault &fault : faults)
    if (fault.function == function) {
      if (int signal = signalNamed(fault.error)) {
        if (fault.call == 0 || fault.call == call)
          std::raise(signal);
        continue;
      }
      if (fault.error == "HANG") {
        while (fault.call == 0 || fault.call == call)
          pause();
        continue;
      }
      int error = parse(fault.error);
      if (error < 0)
        stop("SHALE_STUB_FAIL: " + fault.error + " is not an error of " + function);
      if (fault.call == 0 || fault.call == call)
        return error;
    }
  return 0;
}

std::string shale::stub::setting(const char *name, const char *otherwise) {
  const char *value = std::getenv(name);
  return value && *value ? value : otherwise;
}

void shale::stub::stop(const std::string &message) {
  std::fprintf(stderr, "shale stub: %s\n", message.c_str());
  std::abort();
}
