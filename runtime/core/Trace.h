// What ran when: kernels, products, collectives and copies of some steps, as Chrome
// trace events (chrome://tracing, Perfetto). Off, a span costs one load and a branch.
#ifndef SHALE_RUNTIME_CORE_TRACE_H
#define SHALE_RUNTIME_CORE_TRACE_H

#include "shale/Runtime.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

/// A row of the picture; each belongs to one thread.
enum class TraceStream { Compute, Communication, Copy };

extern bool traceOn;
inline bool tracing() { return traceOn; }

/// Nanoseconds of this host's steady clock.
int64_t traceNow();
/// Notes a span that ends now. `what` (a kernel, an exchange, a copy) and `node`
/// (where in the model it comes from; else the unit or tensor that it moves; may be
/// null) must live as long as the program, `tensor` and `space` too.
void traceSpan(TraceStream stream, const char *what, const char *node,
               int64_t begin, int64_t bytes = 0, const char *tensor = nullptr,
               const char *space = nullptr);

/// Steps A to B, both counted, of "steps:A-B" or "steps:A"; false if it is none.
bool parseTraceSteps(const std::string &text, int64_t &first, int64_t &last);

/// From now on spans are noted, and times count from here: ranks call it just after a barrier. Memory is reserved here.
void traceStart();
/// Ends the notes and returns them: the events of this rank, in JSON, separated by commas.
std::string traceText(int rank);
/// Writes the trace of all ranks, each as `traceText` gave it, to `path`. Throws 74.
void writeTrace(const std::vector<std::string> &texts, const std::string &path);

} // namespace shale::rt

#endif
