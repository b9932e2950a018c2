//===- WholeFunctions.cpp - Functions that are imported as one op ---------===//
#include "lib/Frontend/ONNX/WholeFunctions.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Support/Remarks.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Writes a function in one form, with a number for each name of a value.
class Canonical {
public:
  std::string write(const FunctionProto &function);

private:
  template <typename Names> void values(const Names &names) {
    for (const std::string &name : names) {
      auto number = numbers.try_emplace(name, numbers.size()).first->second;
      field(name.empty() ? "-" : std::to_string(number));
    }
    field(";");
  }
  void attribute(const AttributeProto &attribute) { field(attribute.SerializeAsString()); }
  /// Fields have their length in front, so that no text reads as two.
  void field(StringRef part) { (text += std::to_string(part.size()) + ":") += part; }

  std::string text;
  llvm::StringMap<size_t> numbers;
};

} // namespace

std::string Canonical::write(const FunctionProto &function) {
  field(function.name());
  values(function.input());
  for (const std::string &name : function.attribute())
    field(name);
  for (const AttributeProto &one : function.attribute_proto())
    attribute(one);
  for (const NodeProto &node : function.node()) {
    field(node.domain() == "ai.onnx" ? "" : StringRef(node.domain()));
    field(node.op_type());
    field(node.overload());
    values(node.input());
    values(node.output());
    for (const AttributeProto &one : node.attribute())
      attribute(one);
  }
  values(function.output());
  return text;
}

std::string onnx::digestOf(const FunctionProto &function) {
  std::string text = Canonical().write(function);
  auto digest = llvm::SHA256::hash(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
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
