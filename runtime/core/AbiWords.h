// AbiWords.h - The texts of include/shale/Words.def
#ifndef SHALE_RUNTIME_ABIWORDS_H
#define SHALE_RUNTIME_ABIWORDS_H

#include "shale/Runtime.h"
#include <string>

namespace shale::rt {

/// Returns the text of a ShaleBinding; "" for a tensor of the data file.
inline const char *bindingText(int32_t binding) {
  switch (binding) {
#define SHALE_BINDING(NAME, Name, text, number)                                                    \
  case number:                                                                                     \
    return text;
#include "shale/Words.def"
  }
  return "";
}

/// Returns the text of a ShaleCategory.
inline const char *categoryText(int32_t category) {
  switch (category) {
#define SHALE_CATEGORY(NAME, Name, text, number)                                                   \
  case number:                                                                                     \
    return text;
#include "shale/Words.def"
  }
  return "?";
}

/// Returns the text of a ShaleBlock.
inline const char *blockText(int32_t block) {
  switch (block) {
#define SHALE_BLOCK(NAME, Name, text, number)                                                      \
  case number:                                                                                     \
    return text;
#include "shale/Words.def"
  }
  return "?";
}

/// Returns the text of a ShaleSpace.
inline const char *spaceText(int32_t space) {
  return space == SHALE_SPACE_HOST ? "host" : "device";
}

/// Returns where a buffer is: "state", "arena", "host state" or "host arena".
inline std::string placeText(const ShaleBuffer &buffer) {
  return (buffer.space == SHALE_SPACE_HOST ? "host " : "") + std::string(blockText(buffer.block));
}

} // namespace shale::rt

#endif // SHALE_RUNTIME_ABIWORDS_H
