//===- Refusal.cpp - Why a file is refused --------------------------------===//
#include "lib/Frontend/ONNX/Rules/Refusal.h"

using namespace shale::onnx;
using llvm::StringRef;

/// The message and the remedy of each reason.
static constexpr llvm::StringLiteral kTexts[] = {
#define REFUSAL(reason, message, remedy) message ". " remedy,
#include "lib/Frontend/ONNX/Rules/Refusals.def"
};

Refusal::Refusal(Reason reason, const NodeProto *node, llvm::ArrayRef<Said> parts) : node(node) {
  StringRef rest = kTexts[size_t(reason)];
  if (rest.consume_front("NODE"))
    text = nodeText(*node);
  for (const Said &part : parts) {
    auto [before, after] = rest.split('{');
    (text += before) += part.text;
    rest = after.split('}').second;
  }
  text += rest;
}
