// Spans are stored per stream in blocks that are reserved when tracing starts. Format:
// "Trace Event Format" (complete events, microseconds), a JSON array in an object.
#include "runtime/core/Trace.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace shale::rt {

bool traceOn = false;

namespace {
struct Span {
  const char *what, *node;
  int64_t begin, end, bytes;
  const char *tensor, *space;
};
constexpr int kStreams = 3;
constexpr size_t kRoom = size_t(1) << 16;
std::vector<Span> spans[kStreams];
int64_t origin = 0;

std::string quoted(const char *text) {
  std::string out = "\"";
  for (const char *c = text; *c; ++c) {
    if (*c == '"' || *c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(*c) < 0x20)
      out += format("\\u%04x", *c);
    else
      out += *c;
  }
  return out + "\"";
}
} // namespace

int64_t traceNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void traceSpan(TraceStream stream, const char *what, const char *node, int64_t begin, int64_t bytes,
               const char *tensor, const char *space) {
  spans[static_cast<int>(stream)].push_back({what, node, begin, traceNow(), bytes, tensor, space});
}

bool parseTraceSteps(const std::string &text, int64_t &first, int64_t &last) {
  if (text.compare(0, 6, "steps:") != 0)
    return false;
  const char *at = text.c_str() + 6;
  char *end = nullptr;
  if (*at < '0' || *at > '9')
    return false;
  first = last = std::strtoll(at, &end, 10);
  if (*end == '-') {
    at = end + 1;
    if (*at < '0' || *at > '9')
      return false;
    last = std::strtoll(at, &end, 10);
  }
  return *end == 0 && first <= last;
}

void traceStart() {
  for (std::vector<Span> &list : spans)
    list.reserve(kRoom);
  origin = traceNow();
  traceOn = true;
}

std::string traceText(int rank) {
  traceOn = false;
  static const char *const names[kStreams] = {"compute", "communication", "copies"};
  std::string text = format("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{"
                            "\"name\":\"rank %d\"}}",
                            rank, rank);
  for (int s = 0; s < kStreams; ++s) {
    text += format(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,"
                   "\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                   rank, s, names[s]);
    for (const Span &span : spans[s]) {
      const char *name = span.node && *span.node ? span.node : span.what;
      text +=
          ",\n{\"ph\":\"X\",\"name\":" + quoted(name) +
          format(",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
                 "\"dur\":%.3f,\"args\":{\"what\":",
                 names[s], rank, s, (span.begin - origin) / 1e3, (span.end - span.begin) / 1e3) +
          quoted(span.what);
      if (span.tensor)
        text += ",\"tensor\":" + quoted(span.tensor);
      if (span.space)
        text += ",\"space\":" + quoted(span.space);
      if (span.bytes)
        text += format(",\"bytes\":%lld", (long long)span.bytes);
      text += "}}";
    }
    spans[s].clear();
  }
  return text;
}

void writeTrace(const std::vector<std::string> &texts, const std::string &path) {
  std::string whole = "{\"traceEvents\":[\n";
  for (size_t rank = 0; rank < texts.size(); ++rank)
    whole += (rank ? ",\n" : "") + texts[rank];
  whole += "\n],\"displayTimeUnit\":\"ms\"}\n";
  replaceFile(path, whole);
  printf("trace: %s\n", path.c_str());
}

} // namespace shale::rt
