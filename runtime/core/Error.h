// How the runtime fails: one exception that carries the exit code and one
// message naming the thing at fault and the remedy; main turns it into an exit.
#ifndef SHALE_RUNTIME_CORE_ERROR_H
#define SHALE_RUNTIME_CORE_ERROR_H

#include "shale/Runtime.h"

#include <stdexcept>
#include <string>

namespace shale::rt {

class Error : public std::runtime_error {
public:
  Error(int code, const std::string &message)
      : std::runtime_error(message), code(code) {}
  int code; // SHALE_EXIT_*
};

/// printf into a string.
std::string format(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

/// Throws Error. Not for code that compiled functions call: see die().
[[noreturn]] void fail(int code, const char *pattern, ...)
    __attribute__((format(printf, 2, 3)));

/// Names this process in messages; called once the rank is known.
void setSpeaker(int rank, int worldSize);

/// A line of stdout is unfinished (a progress bar): messages go below it.
void setBar(bool shown);

/// One line on stderr, written at once so that ranks do not mix.
void complain(const char *level, const std::string &message);
void warn(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Reports and ends the process at once, from any thread and from within
/// compiled code, whose frames cannot be unwound.
[[noreturn]] void die(int code, const std::string &message);

} // namespace shale::rt

#endif
