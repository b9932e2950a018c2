// Messages and exits of the runtime.
#include "runtime/core/Error.h"
#include "runtime/core/Output.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
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

/// Returns the length of the printable UTF-8 sequence at `at`; 0 if there is none.
static size_t sequenceAt(const std::string &text, size_t at) {
  auto byte = [&](size_t i) -> unsigned { return i < text.size() ? (unsigned char)text[i] : 0u; };
  unsigned first = byte(at);
  if (first < 0x80)
    return first >= ' ' && first != 0x7f;
  size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                  : first >= 0xe0 && first < 0xf0 ? 3
                  : first >= 0xc2 && first < 0xe0 ? 2
                                                  : 0;
  unsigned value = length == 4 ? first & 7 : length == 3 ? first & 15 : first & 31;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80)
      return 0;
    value = value << 6 | (byte(at + i) & 0x3f);
  }
  bool shortest = value >= (length == 4   ? 0x10000u
                            : length == 3 ? 0x800u
                                          : 0xa0u); // no C1 controls
  bool surrogate = value >= 0xd800 && value < 0xe000;
  // Marks that change the direction of the text around them.
  bool direction = (value >= 0x200e && value <= 0x200f) || (value >= 0x2028 && value <= 0x202e) ||
                   (value >= 0x2066 && value <= 0x2069);
  return shortest && !surrogate && !direction && value < 0x110000 ? length : 0;
}

/// Escapes text; keeps the control characters in `kept`.
static std::string escaped(const std::string &text, const char *kept) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = sequenceAt(text, at);
    if (length == 0 && text[at] != '\0' && std::strchr(kept, text[at]))
      length = 1;
    if (length == 0)
      out += format("\\x%02x", (unsigned char)text[at++]);
    else
      out.append(text, at, length), at += length;
  }
  return out;
}

/// Cuts text of more than `most` bytes in the middle, between characters.
static std::string cut(const std::string &text, size_t most) {
  if (text.size() <= most)
    return text;
  size_t head = most / 2, tail = text.size() - most / 4;
  auto inside = [&](size_t at) {
    return at < text.size() && ((unsigned char)text[at] & 0xc0) == 0x80;
  };
  for (int i = 0; i < 3 && head > 0 && inside(head); ++i)
    --head;
  for (int i = 0; i < 3 && inside(tail); ++i)
    ++tail;
  return text.substr(0, head) + format("...(%zu bytes)...", text.size()) + text.substr(tail);
}

std::string printable(const std::string &text, size_t most) { return escaped(cut(text, most), ""); }

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

void complain(const char *level, const std::string &text) {
  constexpr size_t longest = 1 << 14;
  std::string message = escaped(cut(text, longest), "\n\t");
  std::string line;
  if (speakerRank >= 0)
    line = format("rank %d: ", speakerRank);
  if (barShown && isatty(STDERR_FILENO))
    line = "\n" + line;
  line += std::string(level) + ": " + message + "\n";
  flushOutput(/*seconds=*/1); // what was printed before comes before it
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
  int last = exitCode(code);
  if (last == code)
    complain("error", message);
  flushOutput(/*seconds=*/1);
  _exit(last);
}

} // namespace shale::rt
