//===- Argument.cpp - Arguments of operations of the exported program -----===//
#include "lib/Frontend/ONNX/Record/Argument.h"
#include "llvm/ADT/StringMap.h"
#include <limits>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Lists that are nested deeper are taken for text.
static constexpr int kMaxNesting = 8;

SmallVector<StringRef> onnx::splitList(StringRef text) {
  SmallVector<StringRef> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    char c = at < text.size() ? text[at] : ',';
    depth += (c == '[' || c == '(' || c == '{') - (c == ']' || c == ')' || c == '}');
    if (c != ',' || (depth > 0 && at < text.size()))
      continue;
    if (StringRef part = text.slice(start, at).trim(); !part.empty())
      parts.push_back(part);
    start = at + 1;
  }
  return parts;
}

std::string onnx::shortest(double number) {
  char text[32];
  snprintf(text, sizeof(text), "%g", number);
  return text;
}

static Argument parse(StringRef text, int depth) {
  Argument argument;
  text = text.trim();
  argument.text = text.str();
  if (text.empty() || text == "None")
    return {};
  bool isList =
      (text.front() == '[' && text.back() == ']') || (text.front() == '(' && text.back() == ')');
  if (isList && text.size() >= 2 && depth < kMaxNesting) {
    argument.kind = Argument::Kind::List;
    for (StringRef part : splitList(text.drop_front().drop_back()))
      argument.items.push_back(parse(part, depth + 1));
    return argument;
  }
  argument.kind = Argument::Kind::Number;
  if (text == "True" || text == "False")
    argument.number = text == "True";
  else if (text == "inf" || text == "-inf")
    argument.number = (text == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  else if (text.getAsDouble(argument.number))
    argument.kind = Argument::Kind::Text;
  if (text.consume_front("%")) {
    argument.kind = Argument::Kind::Value;
    argument.text = text.str();
  }
  return argument;
}

Argument onnx::parseArgument(StringRef text) { return parse(text, 0); }

std::string Argument::str() const {
  if (kind == Kind::Value)
    return "%" + text;
  if (kind == Kind::Number && text.empty())
    return shortest(number);
  if (kind != Kind::List)
    return isNone() ? "None" : text;
  std::string list;
  for (const Argument &item : items)
    list += (list.empty() ? "" : ", ") + item.str();
  return "[" + list + "]";
}

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
