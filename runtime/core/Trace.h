// Traces of some steps: kernels, matmuls, collectives and copies as Chrome trace
// events (chrome://tracing, Perfetto). If off, a span costs one load and a branch.
#ifndef SHALE_RUNTIME_CORE_TRACE_H
#define SHALE_RUNTIME_CORE_TRACE_H

#include "shale/Runtime.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

/// A row of the trace; each belongs to one thread.
enum class TraceStream { Compute, Communication, Copy };

extern bool traceOn;
inline bool tracing() { return traceOn; }

/// Returns nanoseconds of this host's steady clock.
int64_t traceNow();
/// Records a span that ends now. `what` is a kernel, a collective or a copy; `node` is
/// its node in the model, or else the unit or tensor that it moves, or null. `what`,
/// `node`, `tensor` and `space` must live as long as the program.
void traceSpan(TraceStream stream, const char *what, const char *node, int64_t begin,
               int64_t bytes = 0, const char *tensor = nullptr, const char *space = nullptr);

/// Parses "steps:A-B" (both inclusive) or "steps:A"; returns false for any other text.
bool parseTraceSteps(const std::string &text, int64_t &first, int64_t &last);

/// Starts recording and sets the time origin: ranks call it just after a barrier. Reserves the
/// memory for spans.
void traceStart();
/// Stops recording and returns the events of this rank, in JSON, separated by commas.
std::string traceText(int rank);
/// Writes the traces of all ranks, each as returned by `traceText`, to `path`. Throws with exit
/// code 74.
void writeTrace(const std::vector<std::string> &texts, const std::string &path);

} // namespace shale::rt

#endif
