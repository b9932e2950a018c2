//===- Words.h - Enumerations as words of the command line ----------------===//
#ifndef SHALE_SUPPORT_WORDS_H
#define SHALE_SUPPORT_WORDS_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <string>

namespace shale {

/// A value of an enumeration and the word for it.
template <typename E> struct Word {
  llvm::StringRef text;
  E value;
};

/// Sets `value` to that of the word `text`. Returns what is wrong with the word, or an empty
/// string.
template <typename E, size_t N>
std::string parseWord(const Word<E> (&words)[N], llvm::StringRef text, E &value) {
  const Word<E> *known =
      llvm::find_if(words, [&](const Word<E> &word) { return word.text == text; });
  if (known != std::end(words)) {
    value = known->value;
    return "";
  }
  return ("'" + text + "' is not one of ").str() +
         llvm::join(llvm::map_range(words, [](const Word<E> &word) { return word.text; }), ", ");
}

/// Returns the word for a value. Each value must have one.
template <typename E, size_t N> llvm::StringRef wordOf(const Word<E> (&words)[N], E value) {
  for (const Word<E> &word : words)
    if (word.value == value)
      return word.text;
  llvm_unreachable("all values have a word");
}

} // namespace shale

#endif // SHALE_SUPPORT_WORDS_H
