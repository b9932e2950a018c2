// Standard output that never stops training: a thread writes what the others print.
//
// A terminal or pipe takes only a few KiB while nobody reads it, and then stops who prints. mpirun
// reads nothing between a SIGTERM that it gets and the SIGKILL that it sends, so that a rank that
// waits for it could not save its state.
#ifndef SHALE_RUNTIME_CORE_OUTPUT_H
#define SHALE_RUNTIME_CORE_OUTPUT_H

#include <optional>

namespace shale::rt {

/// From here on, what is printed to stdout is kept in memory until a thread has written it. What is
/// above 256 KiB is left out, and a line says how much. No effect if stdout is a file. Call it
/// once.
void startOutput();

/// Writes what was printed. Gives up if nothing is read for `seconds`; none: waits as long as it
/// takes.
void flushOutput(std::optional<int> seconds);

} // namespace shale::rt

#endif
