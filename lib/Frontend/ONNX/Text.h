//===- Text.h - Text of messages ------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_TEXT_H
#define SHALE_FRONTEND_ONNX_TEXT_H

#include "mlir/IR/Value.h"
#include "llvm/Support/Error.h"

namespace shale::onnx {

/// Returns a name from a file as text: invalid UTF-8 is replaced, and a name of
/// more than 200 bytes is cut.
std::string displayName(llvm::StringRef name);
/// Returns "'a', 'b' and 3 more": at most `most` names, in quotes.
std::string listOf(llvm::ArrayRef<std::string> names, size_t most = 8);

/// A part of a message. A name of the file is in quotes, as displayName() gives it; a literal, a
/// number and an error are as they are; a value is its type.
struct Said {
  std::string text;

  Said(llvm::StringRef name) : text("'" + displayName(name) + "'") {}
  Said(const std::string &name) : Said(llvm::StringRef(name)) {}
  Said(const char *literal) : text(literal) {}
  template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Said(T number) : text(std::to_string(number)) {}
  Said(mlir::Type type);
  Said(mlir::Value value) : Said(value.getType()) {}
  Said(llvm::Error error) : text(llvm::toString(std::move(error))) {}
};

/// Returns text as a part that is not put in quotes.
inline Said plain(llvm::StringRef text) {
  Said part("");
  part.text = text.str();
  return part;
}

/// Returns `pattern` with the next part in the place of each "{}"; the pattern itself without
/// parts.
std::string say(llvm::StringRef pattern, llvm::ArrayRef<Said> parts);
template <typename... Parts> std::string sayAll(const llvm::Twine &pattern, Parts &&...parts) {
  return say(pattern.str(), {Said(std::forward<Parts>(parts))...});
}
/// Returns the same as an error.
template <typename... Parts> llvm::Error errorOf(const llvm::Twine &pattern, Parts &&...parts) {
  return llvm::createStringError(sayAll(pattern, std::forward<Parts>(parts)...));
}

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TEXT_H
