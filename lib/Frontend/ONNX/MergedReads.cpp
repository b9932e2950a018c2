//===- MergedReads.cpp - Merged operations in the lines of source ---------===//
//
// The exporter removes x.detach() and then merges equal operations, so q - h and q - h.detach() are
// one node, with one of two gradients. The names in the record tell that two were merged. Two norms
// of equal weights that read one value are merged, too: their calls have the same arguments.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Operation.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns the lines of source of a node, the innermost last.
static std::vector<StringRef> linesOf(const NodeProto &node) {
  SmallVector<StringRef> parts;
  metadata(node.metadata_props(), words::kStackTrace).split(parts, '\n');
  std::vector<StringRef> lines;
  for (StringRef part : parts)
    if (part = part.trim(); !part.empty() && !part.starts_with("File \""))
      lines.push_back(part);
  return lines;
}

/// Returns "(x)" of the only call of a module in a line, self.norm(x) for "layers.0.norm"; empty if
/// the line has none, or several.
static StringRef argumentsIn(StringRef line, StringRef module) {
  std::string call = ("." + lastOf(module) + "(").str();
  size_t at = line.find(call), depth = 0;
  if (module.empty() || at == StringRef::npos || line.find(call, at + 1) != StringRef::npos)
    return "";
  StringRef rest = line.drop_front(at + call.size() - 1);
  for (size_t i = 0; i < rest.size(); ++i) {
    depth += rest[i] == '(';
    depth -= rest[i] == ')';
    if (depth == 0)
      return rest.take_front(i + 1);
  }
  return "";
}

/// Returns "(q - h)" where it is all that a line subtracts; empty if there is no such group.
static StringRef groupIn(StringRef line, StringRef kind) {
  StringRef sign = kind == "add" ? " + " : kind == "sub" ? " - " : kind == "mul" ? " * " : "";
  size_t at = sign.empty() ? StringRef::npos : line.find(sign);
  if (at == StringRef::npos || line.count(sign) != 1)
    return "";
  size_t begin = line.take_front(at).find_last_of("()[]{},="),
         end = line.find_first_of("()[]{},", at);
  bool isGroup =
      begin != StringRef::npos && end != StringRef::npos && line[begin] == '(' && line[end] == ')';
  return isGroup ? line.slice(begin, end + 1) : "";
}

/// Whether two operations that the exporter merged are written alike: both modules are called with
/// the same arguments, or two lines of one module have the same group.
static bool areWrittenAlike(const NodeProto &kept, StringRef keptModule, const NodeProto &reader,
                            StringRef module, StringRef kind) {
  std::vector<StringRef> own = linesOf(kept), lines = linesOf(reader);
  for (StringRef line : llvm::reverse(own))
    for (StringRef other : llvm::reverse(lines))
      if (StringRef arguments = argumentsIn(line, keptModule);
          !arguments.empty() && arguments == argumentsIn(other, module))
        return true;
  StringRef group =
      own.empty() || lines.empty() || own.back() == lines.back() ? "" : groupIn(own.back(), kind);
  return !group.empty() && keptModule == readScope(reader).value_or("") &&
         group == groupIn(lines.back(), kind);
}

/// Whether `name` stands among numbers in a list of the record, as in `[%mul_5, 12, 8]`: a size.
static bool isSize(StringRef name, const FxNode &reader) {
  return llvm::any_of(reader.positional, [&](StringRef argument) {
    if (!argument.consume_front("[") || !argument.consume_back("]"))
      return false;
    SmallVector<StringRef> parts;
    argument.split(parts, ',');
    bool has = false, numbers = false;
    for (StringRef part : parts) {
      int64_t number = 0;
      has |= part.trim() == ("%" + name).str();
      numbers |= llvm::to_integer(part.trim(), number);
    }
    return has && numbers;
  });
}

/// Whether `name`, which `reader` reads in the record, is a slice of a whole dimension of what
/// `kept` computes: x[:, :, ::2] is slice_3(slice_2(slice_1(x))), one dimension after the other,
/// and the exporter removes the first two. A slice of the same expression that was merged with
/// `kept` would have a lower dimension than the reader.
static bool isWholeSlice(StringRef name, const FxNode &reader, const FxNode &kept) {
  auto dimOf = [](const FxNode &slice) {
    int64_t dim = -1;
    bool known = operationOf(slice.name) == "slice" && slice.positional.size() > 1 &&
                 llvm::to_integer(slice.positional[1], dim);
    return known ? dim : -1;
  };
  int64_t own = dimOf(reader);
  return operationOf(name) == "slice" && own > 0 && numberOf(name) + 1 == numberOf(reader.name) &&
         dimOf(kept) >= own;
}

std::optional<MergedRead> onnx::findMergedRead(const GraphProto &graph, const NodeSet &needed,
                                               const Parameters &parameters,
                                               llvm::ArrayRef<std::string> assumed,
                                               llvm::function_ref<bool(StringRef)> isVaried) {
  std::map<std::string, Operation> operations; // by the name in the record
  llvm::StringMap<std::pair<const NodeProto *, const Operation *>> makers;
  llvm::StringSet<> made;
  for (const std::string &name : readPlaceholders(graph))
    made.insert(name);
  for (const NodeProto &node : graph.node()) {
    FxNode fx = readFxNode(node);
    Operation &operation = operations[fx.name];
    made.insert(fx.name);
    operation.fx = std::move(fx);
    operation.nodes.push_back(&node);
    for (const std::string &name : node.output()) {
      made.insert(name);
      makers[name] = {&node, &operation};
    }
  }
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    for (const NodeProto *node : operation.nodes) {
      if (!needed.contains(node) || llvm::none_of(node->output(), isVaried))
        continue;
      for (int i = 0; i < node->input_size(); ++i) {
        const NodeProto *kept = makers.lookup(node->input(i)).first;
        const Operation *maker = makers.lookup(node->input(i)).second;
        if (!maker || maker->nodes.empty() || maker == &operation ||
            llvm::is_contained(assumed, maker->fx.target) || parameters.restored.count({node, i}) ||
            !isVaried(node->input(i)))
          continue;
        const std::string &other = maker->fx.name;
        auto name = llvm::find_if(operation.fx.args, [&](const std::string &name) {
          return !made.contains(name) && !isSize(name, operation.fx) &&
                 operation.readsAlsoAs(name, node->input(i), other);
        });
        if (name == operation.fx.args.end() || isWholeSlice(*name, operation.fx, maker->fx))
          continue;
        std::string scope = readScope(*kept).value_or(""), module = readScope(*node).value_or("");
        auto split = parameters.readsOfMerged.find({node, i});
        if (split != parameters.readsOfMerged.end())
          module = parameters.merged[split->second].module;
        if (areWrittenAlike(*kept, scope, *node, module, operationOf(other)))
          continue;
        return MergedRead{
            node,
            "reads '%" + *name + "', which the export merged with node '" +
                displayName(kept->name()) +
                "'. The two may have different gradients, as of a detached value, and the "
                "record does not show that they are the same. Export with shale.export, or with "
                "torch.onnx.export(..., optimize=False), or pass --assume-merged " +
                displayName(maker->fx.target) +
                " if none of the merged operations of this kind is detached or under "
                "no_grad"};
      }
    }
  }
  return std::nullopt;
}
