//===- WholeFunctions.cpp - Functions that are imported as one op ---------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

#include "lib/Support/Remarks.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Domain of the functions for operators of PyTorch that a traced file keeps whole. Their bodies
/// compute them by standard operators (tools/export/shale_export/translations.py).
static constexpr llvm::StringLiteral kAtenDomain = "shale.aten";

/// Returns a digest of what a function computes, in hexadecimal: of its operators, their attributes
/// and how they are connected, with a number for each name of a value. Names of values, and what
/// describes the file, do not count.
static std::string digestOf(const FunctionProto &function) {
  std::string text;
  llvm::StringMap<size_t> numbers;
  // Fields have their length in front, so that no text reads as two.
  auto field = [&](StringRef part) { (text += std::to_string(part.size()) + ":") += part; };
  auto values = [&](const auto &names) {
    for (const std::string &name : names) {
      auto number = numbers.try_emplace(name, numbers.size()).first->second;
      field(name.empty() ? "-" : std::to_string(number));
    }
    field(";");
  };
  field(function.name());
  values(function.input());
  for (const std::string &name : function.attribute())
    field(name);
  for (const AttributeProto &attribute : function.attribute_proto())
    field(attribute.SerializeAsString());
  for (const NodeProto &node : function.node()) {
    field(node.domain() == "ai.onnx" ? "" : StringRef(node.domain()));
    field(node.op_type());
    field(node.overload());
    values(node.input());
    values(node.output());
    for (const AttributeProto &attribute : node.attribute())
      field(attribute.SerializeAsString());
  }
  values(function.output());
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(digest, /*LowerCase=*/true);
}

bool onnx::importWhole(const FunctionProto &function, Node &node) {
  if (function.domain() != kAtenDomain)
    return false;
  const WholeFunction *known = findWholeFunction(function.name());
  if (!known)
    return false;
  std::string digest = digestOf(function);
  if (digest != known->digest) {
    emitDecision(node.loc, "import",
                 "function '" + displayName(function.name()) +
                     "' has another body than this version of shale.export writes (" + digest +
                     "): its operators are imported one by one");
    return false;
  }
  return known->import(node);
}
