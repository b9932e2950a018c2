// Appends, and keeps what could not be written.
#include "runtime/metrics/LogFile.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace shale::rt {

static constexpr size_t usual = 1 << 14, most = 1 << 24; // bytes

LogFile::LogFile(const std::string &path)
    : path(path), fd(openRegular(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW)) {
  waiting.reserve(usual);
}

LogFile::~LogFile() { close(fd); }

void LogFile::append(const void *data, size_t bytes) {
  if (waiting.size() + bytes <= most)
    waiting.append(static_cast<const char *>(data), bytes);
  else if (dropped++ == 0)
    warn("'%s' cannot be written and %zu bytes wait in memory: further metrics are lost until "
         "there is room",
         path.c_str(), waiting.size());
  flush();
}

void LogFile::flush() {
  while (!waiting.empty()) {
    ssize_t n = write(fd, waiting.data(), waiting.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      if (!warned)
        warn("cannot write '%s': %s; metrics wait in memory until there is room", path.c_str(),
             strerror(errno));
      warned = true;
      return;
    }
    waiting.erase(0, n);
  }
  if (warned)
    warn("'%s' is written again%s", path.c_str(),
         dropped ? format("; %lld records are lost", (long long)dropped).c_str() : "");
  warned = false;
  dropped = 0;
}

void LogFile::sync() {
  flush();
  (void)fsync(fd); // an error shows in the checkpoint that is saved next
}

void LogFile::finish() {
  flush();
  if (!waiting.empty())
    warn("'%s' lacks the last %zu bytes: they could not be written", path.c_str(), waiting.size());
}

} // namespace shale::rt
