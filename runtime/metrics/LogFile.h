// A file that a run appends to after each step. A full disk does not end the run.
#ifndef SHALE_RUNTIME_METRICS_LOGFILE_H
#define SHALE_RUNTIME_METRICS_LOGFILE_H

#include <cstdint>
#include <string>

namespace shale::rt {

class LogFile {
public:
  /// Opens a file to append to it. Fails with exit code 74.
  explicit LogFile(const std::string &path);
  ~LogFile();
  LogFile(const LogFile &) = delete;
  LogFile &operator=(const LogFile &) = delete;

  /// Appends a record. What cannot be written waits in memory, after a warning, and is written
  /// with the next records. Beyond 16 MiB new records are dropped, after a second warning.
  /// Allocates nothing while all is written.
  void append(const void *data, size_t bytes);
  /// Makes what was written durable, as far as that is possible.
  void sync();
  /// Tries to write what waits. Warns if something remains.
  void finish();

private:
  void flush();

  std::string path;
  int fd = -1;
  std::string waiting;
  int64_t dropped = 0; // records
  bool warned = false;
};

} // namespace shale::rt

#endif
