//===- Attribute.cpp - Attributes of nodes as a record has them -----------===//
#include "lib/Frontend/ONNX/Record/Attribute.h"
#include "llvm/ADT/StringMap.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

static Argument textOf(StringRef text) { return {Argument::Kind::Text, text.str()}; }

std::optional<Argument> onnx::missingAttribute(StringRef op, StringRef name) {
  static const llvm::StringMap<Argument> missing = {
      {"Softmax.axis", Argument::of(-1)},
      {"LogSoftmax.axis", Argument::of(-1)},
      {"LayerNormalization.axis", Argument::of(-1)},
      {"RMSNormalization.axis", Argument::of(-1)},
      {"Gather.axis", Argument::of(0)},
      {"GatherElements.axis", Argument::of(0)},
      {"ArgMax.axis", Argument::of(0)},
      {"TopK.axis", Argument::of(-1)},
      {"Split.axis", Argument::of(0)},
      {"epsilon", Argument::of(1e-5)},
      {"keepdims", Argument::of(1)},
      {"noop_with_empty_axes", Argument::of(0)},
      {"select_last_index", Argument::of(0)},
      {"exclusive", Argument::of(0)},
      {"reverse", Argument::of(0)},
      {"LeakyRelu.alpha", Argument::of(0.01)},
      {"alpha", Argument::of(1)},
      {"beta", Argument::of(1)},
      {"transA", Argument::of(0)},
      {"transB", Argument::of(0)},
      {"upper", Argument::of(1)},
      {"largest", Argument::of(1)},
      {"group", Argument::of(1)},
      {"approximate", textOf("none")},
      {"auto_pad", textOf("NOTSET")},
      {"mode", textOf("constant")},
      {"ScatterND.reduction", textOf("none")},
      {"ScatterElements.reduction", textOf("none")},
      {"reduction", textOf("mean")},
  };
  for (const std::string &key : {(op + "." + name).str(), name.str()})
    if (auto found = missing.find(key); found != missing.end())
      return found->second;
  return std::nullopt;
}

std::optional<Argument> onnx::attributeOf(const AttributeProto &attribute) {
  switch (attribute.type()) {
  case 1: // FLOAT
    return Argument::of(attribute.f());
  case 2: // INT
    return Argument::of(double(attribute.i()));
  case 3: // STRING
    return textOf(attribute.s());
  case 7: { // INTS
    std::vector<Argument> items;
    for (int64_t item : attribute.ints())
      items.push_back(Argument::of(double(item)));
    return Argument::of(std::move(items));
  }
  default:
    return std::nullopt;
  }
}
