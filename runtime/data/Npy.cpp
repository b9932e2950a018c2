// Format (numpy.lib.format): 6 bytes of magic, version as 2 bytes, length of the header as u16
// (version 1) or u32, and a Python dictionary, padded with spaces and a line break.
#include "runtime/data/Npy.h"
#include "runtime/core/Error.h"

#include <cstring>

namespace shale::rt {

namespace {
constexpr int64_t headerLimit = 1 << 16;
constexpr size_t rankLimit = 32;

/// Parses the dictionary front to back. Each function returns false, with `wrong` set, at the first
/// character that does not belong there.
class Parser {
public:
  explicit Parser(const std::string &text) : text(text) {}
  std::string wrong;

  bool parse(NpyHeader &header) {
    if (!take('{'))
      return false;
    while (!next('}')) {
      std::string key;
      if (!quoted(key) || !take(':') || !value(key, header))
        return false;
      if (!next(',') && !at('}'))
        return refuse("a comma or '}'");
    }
    if (text.find_first_not_of(" \n", here) != std::string::npos)
      return refuse("nothing after the dictionary");
    if (seen != 7) {
      wrong = "it lacks descr, fortran_order or shape";
      return false;
    }
    return true;
  }

private:
  bool value(const std::string &key, NpyHeader &header) {
    int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0 || (seen & bit)) {
      wrong = "key '" + printable(key) + (bit ? "' is defined twice" : "' is unknown");
      return false;
    }
    seen |= bit;
    return bit == 1   ? quoted(header.descr)
           : bit == 2 ? truth(header.fortranOrder)
                      : tuple(header.shape);
  }
  bool quoted(std::string &out) {
    char quote = at('"') ? '"' : '\'';
    if (!next(quote))
      return refuse("a string");
    size_t end = text.find(quote, here);
    if (end == std::string::npos || text.find('\\', here) < end)
      return refuse("a string without a backslash");
    out = text.substr(here, end - here);
    here = end + 1;
    return true;
  }
  bool truth(bool &out) {
    for (const char *word : {"False", "True"})
      if (skip(), text.compare(here, std::strlen(word), word) == 0) {
        out = *word == 'T';
        here += std::strlen(word);
        return true;
      }
    return refuse("True or False");
  }
  bool tuple(std::vector<int64_t> &out) {
    if (!take('('))
      return false;
    while (!next(')')) {
      skip();
      size_t end = text.find_first_not_of("0123456789", here);
      if (end == std::string::npos || end == here || end - here > 18 || out.size() == rankLimit)
        return refuse("a size from 0 to 10^18 - 1");
      out.push_back(std::strtoll(text.c_str() + here, nullptr, 10));
      here = end;
      bool comma = next(',');
      // (5) is a number; only (5,) is a tuple.
      if (!comma && (out.size() == 1 || !at(')')))
        return refuse("a comma");
    }
    return true;
  }

  void skip() { here = std::min(text.find_first_not_of(" \n", here), text.size()); }
  bool at(char c) {
    skip();
    return here < text.size() && text[here] == c;
  }
  bool next(char c) {
    bool there = at(c);
    here += there;
    return there;
  }
  bool take(char c) { return next(c) || refuse(std::string("'") + c + "'"); }
  bool refuse(const std::string &expected) {
    wrong = format("expected %s at byte %zu", expected.c_str(), here);
    return false;
  }

  const std::string &text;
  size_t here = 0;
  int seen = 0; // bits of the keys
};
} // namespace

NpyHeader readNpyHeader(const InputFile &file) {
  const char *name = file.path().c_str();
  unsigned char head[12] = {0};
  if (file.size() < 12)
    fail(SHALE_EXIT_DATA, "'%s' is not a .npy file: %lld bytes", name, (long long)file.size());
  file.readAt(0, head, 12);
  if (std::memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
    fail(SHALE_EXIT_DATA, "'%s' is not a .npy file of version 1 to 3", name);
  bool shortForm = head[6] == 1;
  int64_t length = head[8] | head[9] << 8;
  if (!shortForm)
    length |= static_cast<int64_t>(head[10]) << 16 | static_cast<int64_t>(head[11]) << 24;
  int64_t begin = shortForm ? 10 : 12;
  if (length > headerLimit || length > file.size() - begin)
    fail(SHALE_EXIT_DATA, "'%s': a .npy header of %lld bytes in %lld", name, (long long)length,
         (long long)file.size());
  std::string text(length, '\0');
  file.readAt(begin, text.data(), length);
  NpyHeader header;
  Parser parser(text);
  if (!parser.parse(header))
    fail(SHALE_EXIT_DATA, "'%s': the .npy header '%s' is not one that numpy writes: %s", name,
         printable(text).c_str(), parser.wrong.c_str());
  header.start = begin + length;
  return header;
}

} // namespace shale::rt
