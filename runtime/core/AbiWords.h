// AbiWords.h - The texts of include/shale/Words.def
#ifndef SHALE_RUNTIME_ABIWORDS_H
#define SHALE_RUNTIME_ABIWORDS_H

#include "shale/Runtime.h"
#include <cstddef>
#include <string>

namespace shale::rt {

/// A word and its number.
struct AbiWord {
  int32_t number;
  const char *text;
};

inline constexpr AbiWord kBindings[] = {
#define SHALE_BINDING(NAME, Name, text, number) {number, text},
#include "shale/Words.def"
};
inline constexpr AbiWord kCategories[] = {
#define SHALE_CATEGORY(NAME, Name, text, number) {number, text},
#include "shale/Words.def"
};
inline constexpr AbiWord kBlocks[] = {
#define SHALE_BLOCK(NAME, Name, text, number) {number, text},
#include "shale/Words.def"
};

/// Returns the text of a number in a list of words; "?" if the list lacks it.
template <size_t Count> const char *textOf(const AbiWord (&words)[Count], int32_t number) {
  for (const AbiWord &word : words)
    if (word.number == number)
      return word.text;
  return "?";
}

/// Returns the text of a ShaleSpace.
inline const char *spaceText(int32_t space) {
  return space == SHALE_SPACE_HOST ? "host" : "device";
}

/// Returns where a buffer is: "state", "arena", "host state" or "host arena".
inline std::string placeText(const ShaleBuffer &buffer) {
  return std::string(buffer.space == SHALE_SPACE_HOST ? "host " : "") +
         textOf(kBlocks, buffer.block);
}

} // namespace shale::rt

#endif // SHALE_RUNTIME_ABIWORDS_H
