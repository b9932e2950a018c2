//===- Signature.cpp - Metadata of PyTorch's exporter ---------------------===//
//
// The formats are those of torch.onnx.export(dynamo=True) (torch 2.9 to 2.15,
// as found in files): the text of ExportGraphSignature, of torch.fx.Node and of
// Python lists of strings.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

StringRef onnx::metadata(const google::protobuf::RepeatedPtrField<StringStringEntryProto> &entries,
                         StringRef key) {
  for (const StringStringEntryProto &entry : entries)
    if (StringRef(entry.key()) == key)
      return entry.value();
  return "";
}

/// Returns the text between the first pair of single or double quotes.
static StringRef quoted(StringRef text) {
  size_t open = text.find_first_of("'\"");
  if (open == StringRef::npos)
    return "";
  return text.substr(open + 1).take_until([&](char c) { return c == text[open]; });
}

Signature onnx::readSignature(const GraphProto &graph) {
  Signature signature;
  auto [inputs, outputs] = metadata(graph.metadata_props(), words::kSignature).split("# outputs");
  for (bool isInput : {true, false}) {
    SmallVector<StringRef> lines;
    (isInput ? inputs : outputs).split(lines, '\n');
    for (StringRef line : lines) {
      auto [name, rest] = line.trim().split(": ");
      StringRef target = quoted(rest.split("target=").second);
      if (rest.empty())
        continue;
      bool isParameter = rest.starts_with("PARAMETER");
      if (!isInput) {
        if (rest.starts_with("BUFFER_MUTATION") || rest.starts_with("PARAMETER_MUTATION"))
          signature.changed[name] = target.str();
        else if (rest.starts_with("GRADIENT_TO_PARAMETER") && !target.empty())
          signature.gradients[name] = target.str();
        continue;
      }
      signature.placeholders.push_back(name.str());
      if ((isParameter || rest.starts_with("BUFFER")) && !target.empty())
        signature.entries.push_back({name.str(), target.str(), isParameter});
      if (rest.starts_with("USER_INPUT"))
        signature.userInputs.insert(name);
      if (rest.starts_with("BUFFER ") && rest.contains("persistent=False"))
        signature.transient.insert(target);
    }
  }
  return signature;
}

StringRef onnx::moduleOf(StringRef target) {
  size_t dot = target.rfind('.');
  return dot == StringRef::npos ? "" : target.take_front(dot);
}

StringRef onnx::lastOf(StringRef target) { return target.substr(target.rfind('.') + 1); }

std::string onnx::operationOf(StringRef name) {
  StringRef root = name.rtrim("0123456789");
  if (root.size() < name.size())
    root.consume_back("_");
  else
    root = name;
  return root == "val" || root.contains('.') ? "" : root.str();
}

int64_t onnx::numberOf(StringRef name) {
  int64_t number = 0;
  return name.rsplit('_').second.getAsInteger(10, number) ? 0 : number;
}

FxNode onnx::readFxNode(const NodeProto &node) {
  FxNode result;
  StringRef text = metadata(node.metadata_props(), words::kFxNode);
  if (!text.consume_front("%"))
    return result;
  result.name = text.take_until([](char c) { return c == ' ' || c == ':'; }).str();
  auto [head, args] = text.split("](args = ");
  StringRef target = head.split("[target=").second;
  target.consume_front(words::kTorchOps);
  result.target = target.str();
  auto [list, named] = args.rsplit(", kwargs = ");
  // (%p_w, [%x, 2], 0): commas outside of brackets.
  list.consume_front("(");
  list.consume_back(")");
  std::string equation; // of an einsum, which may have commas: a record has no quotes
  for (StringRef part : splitList(list)) {
    if (target == words::kEinsum && result.arguments.empty() && part.front() != '[') {
      equation += (equation.empty() ? "" : ",") + part.str();
      continue;
    }
    if (!equation.empty() && result.arguments.empty())
      result.arguments.push_back({"", {Argument::Kind::Text, equation}});
    result.arguments.push_back({"", parseArgument(part)});
  }
  named = named.trim(); // {alpha: 0.3}
  if (named.consume_front("{"))
    named = named.take_front(named.rfind('}'));
  for (StringRef part : splitList(named))
    if (auto [name, value] = part.split(": "); !value.empty())
      result.arguments.push_back({name.str(), parseArgument(value)});
  for (size_t at = args.find('%'); at != StringRef::npos; at = args.find('%')) {
    args = args.substr(at + 1);
    result.args.push_back(
        args.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }).str());
  }
  return result;
}

const Argument *FxNode::argument(size_t position, StringRef name) const {
  if (position < arguments.size() && arguments[position].first.empty())
    return &arguments[position].second;
  for (const auto &[key, value] : arguments)
    if (!name.empty() && key == name)
      return &value;
  return nullptr;
}

std::optional<double> FxNode::number(size_t position, StringRef name) const {
  const Argument *found = argument(position, name);
  return found && found->isNumber() ? std::optional(found->number) : std::nullopt;
}

BatchNorm onnx::readBatchNorm(const NodeProto &node) {
  BatchNorm norm;
  for (const AttributeProto &attribute : node.attribute())
    norm.inTraining |= attribute.name() == "training_mode" && attribute.i() != 0;
  FxNode fx = readFxNode(node);
  norm.keepsStatistics = fx.target != words::kBatchNormWithoutStatistics;
  size_t position = norm.keepsStatistics ? 5 : 3; // of `training`; the momentum is the next
  StringRef name = fx.target;
  norm.isTraced = name.consume_front(words::kAten) && name.contains('.') &&
                  words::is(name.substr(0, name.rfind('.')), words::Trait::IsBatchNorm);
  const Argument *training = norm.isTraced ? fx.argument(position) : nullptr;
  if (!training)
    return norm;
  norm.inTraining |= fx.number(position) != 0.0;
  norm.momentum = fx.number(position + 1, "momentum");
  return norm;
}

bool onnx::changesBuffer(const NodeProto &node, int operand) {
  if (node.op_type() != "BatchNormalization" || (operand != 3 && operand != 4))
    return false;
  BatchNorm norm = readBatchNorm(node);
  return norm.inTraining && norm.keepsStatistics;
}

SourceLine onnx::readSourceLine(const NodeProto &node) {
  // File "modeling_llama.py", line 243, in forward
  StringRef trace = metadata(node.metadata_props(), words::kStackTrace);
  size_t last = trace.rfind("File \"");
  if (last == StringRef::npos)
    return {};
  auto [file, rest] = trace.substr(last + 6).split('"');
  SourceLine source{file.str()};
  if (!rest.consume_front(", line ") || rest.consumeInteger(10, source.line))
    return {};
  return source;
}

std::vector<std::pair<std::string, std::string>> onnx::readClasses(const NodeProto &node) {
  SmallVector<StringRef> scopes, classes;
  metadata(node.metadata_props(), words::kNameScopes).split(scopes, ',');
  metadata(node.metadata_props(), words::kClasses).split(classes, ',');
  std::vector<std::pair<std::string, std::string>> result;
  if (scopes.size() != classes.size())
    return result;
  // The last entry is the operation itself.
  for (size_t i = 0; i + 1 < scopes.size(); ++i) {
    StringRef scope = quoted(scopes[i]), name = quoted(classes[i]);
    // A scope that is its own class marks a node that comes from no module.
    if (!scope.empty() && !name.empty() && scope != name)
      result.emplace_back(scope.str(), name.str());
  }
  return result;
}

std::optional<std::string> onnx::readScope(const NodeProto &node) {
  // A Python list of strings, outermost module first, the node itself last.
  StringRef scopes = metadata(node.metadata_props(), words::kNameScopes);
  if (!scopes.empty()) {
    SmallVector<StringRef> parts;
    scopes.split(parts, ',');
    if (parts.size() < 2)
      return std::nullopt;
    return quoted(parts[parts.size() - 2]).str();
  }
  StringRef name = node.name();
  if (!name.consume_front("/"))
    return std::nullopt;
  std::string scope = name.rsplit('/').first.str();
  if (!name.contains('/'))
    return "";
  for (char &c : scope)
    if (c == '/')
      c = '.';
  return scope;
}

StringRef onnx::readSourceText(const NodeProto &node) {
  StringRef text = metadata(node.metadata_props(), words::kStackTrace).rtrim();
  StringRef line = text.rsplit('\n').second.trim();
  return line.starts_with("File \"") ? "" : line;
}

std::vector<std::string> onnx::readFoldedFrom(const ValueInfoProto &value) {
  // Every second part stands between quotes. (A name with an apostrophe would be quoted otherwise;
  // exporters write none.)
  SmallVector<StringRef> parts;
  metadata(value.metadata_props(), words::kFoldedFrom).split(parts, '\'');
  std::vector<std::string> names;
  for (size_t i = 1; i + 1 < parts.size(); i += 2)
    names.push_back(parts[i].str());
  return names;
}
