// Errors of the runtime: one exception that carries the exit code and a message
// naming the cause and the remedy; main exits with the code.
#ifndef SHALE_RUNTIME_CORE_ERROR_H
#define SHALE_RUNTIME_CORE_ERROR_H

#include "shale/Runtime.h"

#include <stdexcept>
#include <string>

namespace shale::rt {

/// An error without a message is not reported: another rank reports it.
class Error : public std::runtime_error {
public:
  Error(int code, const std::string &message) : std::runtime_error(message), code(code) {}
  int code; // SHALE_EXIT_*
};

/// Runs `body`, unless there is trouble already. Keeps the message of an Error as the trouble.
template <typename Body> void attempt(std::string &trouble, const Body &body) {
  if (!trouble.empty())
    return;
  try {
    body();
  } catch (const Error &error) {
    trouble = error.what();
  }
}

/// Formats as printf does and returns the string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Makes text from a file (a name, a path) fit to be printed: control characters and bytes that are
/// not UTF-8 become \xHH, and the middle of a text of more than `most` bytes is left out.
std::string printable(const std::string &text, size_t most = 200);

/// Throws Error. Not for code that compiled functions call: see die().
[[noreturn]] void fail(int code, const char *pattern, ...) __attribute__((format(printf, 2, 3)));

/// Sets the rank that messages are prefixed with; called once the rank is known.
void setSpeaker(int rank, int worldSize);

/// Returns that rank; -1 for a run of one rank.
int speaker();

/// Sets the function that die() asks for another exit code when a peer failed; 0: none.
/// exitCode() asks it, too.
void setPeerFailureCode(int (*code)());

/// Returns the exit code of the process after an error with `code`. It is another one if a peer
/// failed because the run was stopped; then the error must not be reported.
int exitCode(int code);

/// Sets whether stdout ends in an unfinished line (a progress bar); messages go below it.
void setBar(bool shown);

/// Prints one line to stderr in a single write, so that lines of ranks do not mix.
void complain(const char *level, const std::string &message);
void warn(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Reports an error and ends the process at once. May be called from any thread and
/// from within compiled code, whose frames cannot be unwound.
[[noreturn]] void die(int code, const std::string &message);

} // namespace shale::rt

#endif
