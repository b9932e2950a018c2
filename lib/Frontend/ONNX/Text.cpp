//===- Text.cpp - Text of messages ----------------------------------------===//
#include "lib/Frontend/ONNX/Text.h"
#include "llvm/Support/JSON.h"

using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

std::string shale::onnx::displayName(StringRef name) {
  std::string text = llvm::json::fixUTF8(name.take_front(200));
  if (name.size() > 200)
    text += "...";
  return text;
}

std::string shale::onnx::listOf(ArrayRef<std::string> names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

Said::Said(mlir::Type type) { llvm::raw_string_ostream(text) << type; }

std::string shale::onnx::say(StringRef pattern, ArrayRef<Said> parts) {
  std::string text;
  for (const Said &part : parts) {
    auto [before, rest] = pattern.split("{}");
    (text += before) += part.text;
    pattern = rest;
  }
  return text += pattern;
}
