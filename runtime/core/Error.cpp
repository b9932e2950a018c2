// Messages and exits of the runtime.
#include "runtime/core/Error.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace shale::rt {

static int speakerRank = -1;
static std::atomic<int (*)()> peerFailureCode{nullptr};
static std::atomic<bool> barShown{false};

void setBar(bool shown) { barShown = shown; }

static std::string formatList(const char *pattern, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int n = vsnprintf(nullptr, 0, pattern, copy);
  va_end(copy);
  if (n < 0)
    return pattern;
  std::string text(n, '\0');
  vsnprintf(text.data(), n + 1, pattern, list);
  return text;
}

std::string format(const char *pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = formatList(pattern, list);
  va_end(list);
  return text;
}

void fail(int code, const char *pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = formatList(pattern, list);
  va_end(list);
  throw Error(code, text);
}

void setSpeaker(int rank, int worldSize) { speakerRank = worldSize > 1 ? rank : -1; }

int speaker() { return speakerRank; }

void setPeerFailureCode(int (*code)()) { peerFailureCode = code; }

int exitCode(int code) {
  int (*ask)() = peerFailureCode;
  int other = code == SHALE_EXIT_PEER && ask ? ask() : 0;
  return other ? other : code;
}

void complain(const char *level, const std::string &message) {
  std::string line;
  if (speakerRank >= 0)
    line = format("rank %d: ", speakerRank);
  if (barShown && isatty(STDERR_FILENO))
    line = "\n" + line;
  line += std::string(level) + ": " + message + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
    // The error cannot be reported anywhere else.
  }
}

void warn(const char *pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = formatList(pattern, list);
  va_end(list);
  complain("warning", text);
}

void die(int code, const std::string &message) {
  fflush(stdout);
  int last = exitCode(code);
  if (last == code)
    complain("error", message);
  _exit(last);
}

} // namespace shale::rt
