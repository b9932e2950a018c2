// The thread that writes standard output.
#include "runtime/core/Output.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace shale::rt {

namespace {

constexpr size_t kMost = 256 << 10;

/// Not of the heap: its pages take memory only while nobody reads the output, and the plan's line
/// of the process has room for them.
char ring[kMost];

class Output {
public:
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      arrived.wait(lock, [&] { return used > 0; });
      size_t count = std::min(used, kMost - first);
      lock.unlock();
      // Other threads append after these bytes only, so they need no lock.
      size_t done = writeSome(ring + first, count);
      lock.lock();
      used -= done;
      first = used == 0 ? 0 : (first + done) % kMost; // an idle buffer touches few pages
      written += done;
      if (used == 0 && leftOut > 0) {
        char line[96];
        int length =
            snprintf(line, sizeof(line),
                     "[%zu bytes of output were left out, since nothing read them]\n", leftOut);
        leftOut = 0;
        append(line, length);
      }
      progress.notify_all();
    }
  }

  void add(const char *text, size_t count) {
    std::lock_guard<std::mutex> lock(mutex);
    if (count > kMost - used) {
      leftOut += count;
      return;
    }
    append(text, count);
    arrived.notify_one();
  }

  void wait(std::optional<int> seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    for (size_t before = written; used > 0; before = written) {
      auto moved = [&] { return used == 0 || written != before; };
      if (!seconds)
        progress.wait(lock, moved);
      else if (!progress.wait_for(lock, std::chrono::seconds(*seconds), moved))
        return;
    }
  }

private:
  void append(const char *text, size_t count) {
    size_t at = (first + used) % kMost, head = std::min(count, kMost - at);
    std::memcpy(ring + at, text, head);
    std::memcpy(ring, text + head, count - head);
    used += count;
  }

  /// Returns how many bytes are done with: written, or lost as the reader is gone.
  static size_t writeSome(const char *text, size_t count) {
    ssize_t n = write(STDOUT_FILENO, text, count);
    if (n >= 0)
      return n;
    if (errno == EAGAIN) { // whoever shares the output has set O_NONBLOCK
      pollfd one{STDOUT_FILENO, POLLOUT, 0};
      poll(&one, 1, 1000);
      return 0;
    }
    return errno == EINTR ? 0 : count;
  }

  std::mutex mutex;
  std::condition_variable arrived, progress;
  size_t first = 0, used = 0, written = 0, leftOut = 0;
};

/// Never destroyed: its thread runs until the process ends.
Output *output = nullptr;

} // namespace

void startOutput() {
  struct stat info{};
  if (fstat(STDOUT_FILENO, &info) != 0 || S_ISREG(info.st_mode))
    return;
  fflush(stdout);
  cookie_io_functions_t functions{};
  functions.write = [](void *to, const char *text, size_t count) {
    static_cast<Output *>(to)->add(text, count);
    return static_cast<ssize_t>(count);
  };
  auto *made = new Output;
  FILE *stream = fopencookie(made, "w", functions);
  if (!stream)
    return;
  std::thread([made] { made->run(); }).detach();
  output = made;
  stdout = stream;
}

void flushOutput(std::optional<int> seconds) {
  fflush(stdout);
  if (output)
    output->wait(seconds);
}

} // namespace shale::rt
