// JSON of files.
#include "runtime/core/Json.h"

#include <stdexcept>

namespace shale::rt {

/// Returns the number of levels of arrays and objects. Text that is not JSON has some number of
/// levels, too, at least that of the part before the error.
static size_t levelsOf(const std::string &text) {
  size_t level = 0, most = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\';
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++level);
    } else if ((c == ']' || c == '}') && level > 0) {
      --level;
    }
  }
  return most;
}

nlohmann::json parseJson(const std::string &text) {
  constexpr size_t mostLevels = 32;
  size_t levels = levelsOf(text);
  if (levels > mostLevels)
    throw std::runtime_error("it has " + std::to_string(levels) +
                             " levels of arrays and objects, more than the " +
                             std::to_string(mostLevels) + " it may have");
  return nlohmann::json::parse(text);
}

} // namespace shale::rt
