//===- Bindings.h - What fills an input of a step -------------------------===//
#ifndef SHALE_NN_BINDINGS_H
#define SHALE_NN_BINDINGS_H

#include "dialects/nn/NN.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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

inline llvm::StringRef textOf(Binding binding) {
  switch (binding) {
#define SHALE_BINDING(NAME, Name, text, number)                                                    \
  case Binding::Name:                                                                              \
    return text;
#include "shale/Words.def"
  }
  return "";
}

/// Returns the binding of an argument: that of `nn.binding`, else Data.
inline Binding getBinding(mlir::FunctionOpInterface function, unsigned argument) {
  auto word = function.getArgAttrOfType<mlir::StringAttr>(argument, kBindingAttr);
  return word ? findBinding(word.getValue()).value_or(Binding::Data) : Binding::Data;
}

/// Whether an input holds tokens of the data, or the next ones.
inline bool readsTokens(Binding binding) {
  return binding == Binding::Tokens || binding == Binding::NextTokens;
}

} // namespace shale::nn

#endif // SHALE_NN_BINDINGS_H
