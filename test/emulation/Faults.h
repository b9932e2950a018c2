// Errors that the environment asks for: SHALE_STUB_FAIL="FUNCTION[@N]=ERROR,..".
#ifndef SHALE_TEST_EMULATION_FAULTS_H
#define SHALE_TEST_EMULATION_FAULTS_H

#include <functional>
#include <string>

namespace shale::stub {

/// Counts a call of `function`. Returns the error that the environment asks for at this call, as
/// `parse` reads its name, or 0. Entries whose error `parse` does not know (-1) end the process
/// when their function is called. An entry without @N fails every call. SIGINT or SIGTERM in place
/// of an error raises this signal. HANG does not return, and keeps all other calls waiting.
int injected(const char *function, const std::function<int(const std::string &)> &parse);

/// The value of a variable of the environment, or `otherwise`.
std::string setting(const char *name, const char *otherwise);

/// Prints a message and aborts.
[[noreturn]] void stop(const std::string &message);

} // namespace shale::stub

#endif
