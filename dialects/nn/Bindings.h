//===- Bindings.h - What fills an input of a step -------------------------===//
#ifndef SHALE_NN_BINDINGS_H
#define SHALE_NN_BINDINGS_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace shale::nn {

/// The values of `nn.binding`, with the numbers of the runtime (include/shale/Words.def).
enum class Binding {
#define SHALE_BINDING(NAME, Name, text, number) Name = number,
#include "shale/Words.def"
};

/// Returns the binding of a text; nothing if there is none.
inline std::optional<Binding> findBinding(llvm::StringRef word) {
#define SHALE_BINDING(NAME, Name, text, number)                                                    \
  if (word == text)                                                                                \
    return Binding::Name;
#include "shale/Words.def"
  return std::nullopt;
}

} // namespace shale::nn

#endif // SHALE_NN_BINDINGS_H
