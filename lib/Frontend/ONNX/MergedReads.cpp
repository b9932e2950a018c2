//===- MergedReads.cpp - Merged operations in the lines of source ---------===//
//
// The exporter removes x.detach() and then merges equal operations, so q - h and q - h.detach() are
// one node, with one of two gradients. The names in the record tell that two were merged, and only
// the lines of source that both were the same expression.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Operation.h"
#include "lib/Frontend/ONNX/Record/Python.h"
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

/// Writes an expression in one form, whatever its spaces and parentheses.
static std::string written(const PyExpr &expr) {
  std::string text = std::to_string(int(expr.kind)) + expr.text;
  if (expr.kind == PyExpr::Kind::Number)
    text += std::to_string(expr.number);
  for (size_t i = 0; i < expr.parts.size(); ++i) {
    size_t argument = expr.parts.size() - expr.keywords.size();
    text += "(" + (i >= argument ? expr.keywords[i - argument] + "=" : std::string()) +
            written(expr.parts[i]) + ")";
  }
  return text;
}

static void forEachExpression(const PyExpr &expr, llvm::function_ref<void(const PyExpr &)> visit) {
  visit(expr);
  for (const PyExpr &part : expr.parts)
    forEachExpression(part, visit);
}

/// Returns "sin" for x.sin() and torch.sin(x), "norm" for self.norm(x) and self.norm[0](x).
static StringRef calledName(const PyExpr &call) {
  const PyExpr *called = &call.parts.front();
  while (called->kind == PyExpr::Kind::Index && !called->parts.empty())
    called = &called->parts.front();
  return called->text;
}

/// Whether an expression is an operation of this kind, "sub" for q - h.
static bool isOfKind(const PyExpr &expr, StringRef kind) {
  switch (expr.kind) {
  case PyExpr::Kind::Binary:
    return words::isWrittenAs(kind, words::Python::Operator, expr.text);
  case PyExpr::Kind::Unary:
    return words::isWrittenAs(kind, words::Python::Sign, expr.text);
  case PyExpr::Kind::Attribute:
    return words::isWrittenAs(kind, words::Python::Attribute, expr.text);
  case PyExpr::Kind::Index: // x[:, i] is a selection, x[:, i, None] one more operation
    return words::isWrittenAs(kind, words::Python::Subscript, "[]");
  case PyExpr::Kind::Call: {
    StringRef name = expr.parts.empty() ? "" : calledName(expr);
    return name == kind || words::isWrittenAs(kind, words::Python::Call, name);
  }
  default:
    return false;
  }
}

/// Whether an expression calls a module of this scope: self.norm(x) for "layers.0.norm".
static bool callsModule(const PyExpr &expr, StringRef scope) {
  if (expr.kind != PyExpr::Kind::Call || expr.parts.empty() || scope.empty())
    return false;
  StringRef last = lastOf(scope);
  while (!scope.empty() && last.find_first_not_of("0123456789") == StringRef::npos)
    scope = moduleOf(scope), last = lastOf(scope);
  return calledName(expr) == last;
}

/// Whether the lines of source show that an operation, which the exporter merged with that of the
/// node `kept`, is the same expression: `x.sin()` in the lines of the kept one and of the reader,
/// or twice in a line of both. `kind`: "sin". `module`: the module of the merged operation if that
/// is not the kept one's; then both are called with the same arguments.
static bool isSameInSource(const NodeProto &kept, StringRef keptScope, const NodeProto &reader,
                           StringRef kind, StringRef module) {
  // The expressions that compute the kept operation, or call its module, with a count per line.
  std::map<std::pair<StringRef, std::string>, int> found;
  bool comparesKind = true;
  auto keyOf = [&](const PyExpr &expr, StringRef scope) -> std::string {
    if (!module.empty()) { // two modules: equal arguments
      std::string text;
      if (callsModule(expr, scope))
        for (size_t i = 1; i < expr.parts.size(); ++i)
          text += written(expr.parts[i]) + ",";
      return text;
    }
    if (!comparesKind || !isOfKind(expr, kind))
      return callsModule(expr, scope) ? written(expr) : "";
    // x[:, i] and x[:, i, None] read the same object: compare x.
    return written(expr.kind == PyExpr::Kind::Index ? expr.parts.front() : expr);
  };
  auto visit = [&](StringRef line, StringRef scope,
                   llvm::function_ref<void(const std::string &)> then) {
    for (const PyExpr &whole : expressionsIn(line))
      forEachExpression(whole, [&](const PyExpr &expr) {
        if (std::string key = keyOf(expr, scope); !key.empty())
          then(key);
      });
  };
  for (StringRef line : linesOf(kept))
    visit(line, keptScope, [&](const std::string &key) { ++found[{line, key}]; });
  // Names mean the same in the function of the kept operation only. A reader in a module inside of
  // that function's may get the value from it.
  std::vector<StringRef> lines = linesOf(reader);
  std::string readerScope = readScope(reader).value_or("");
  bool isInside = keptScope.empty() || StringRef(readerScope).starts_with((keptScope + ".").str());
  for (size_t at = lines.size(); at-- > 0;) {
    comparesKind = readerScope == keptScope || (isInside && at + 1 < lines.size());
    bool isSame = false, computes = false;
    visit(lines[at], module.empty() ? keptScope : module, [&](const std::string &key) {
      bool isFound = false;
      for (const auto &[place, count] : found)
        if (place.second == key) {
          isFound = true;
          isSame |= place.first != lines[at] || count > 1 || !module.empty();
        }
      // One expression of one line may be computed in two calls; the lines around it tell.
      computes |= !isFound;
    });
    if (isSame)
      return true;
    if (computes && module.empty()) // another expression of this kind may be what was merged
      return false;
  }
  return false;
}

/// Whether both nodes are parts of one function of PyTorch that the exporter writes as many
/// operations, and whose call is all that their line does. A function of one tensor that is called
/// twice, with equal values, is merged as a whole: a part that is left belongs to the first call.
static bool areOfOneCall(const NodeProto &kept, const NodeProto &reader) {
  StringRef line = readSourceText(reader);
  if (line.empty() || readScope(kept) != readScope(reader) ||
      metadata(kept.metadata_props(), words::kStackTrace) !=
          metadata(reader.metadata_props(), words::kStackTrace))
    return false;
  if (!line.consume_front("return ")) {
    line = line.drop_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!line.consume_front(" = "))
      return false;
  }
  std::vector<PyExpr> whole = expressionsIn(line);
  return whole.size() == 1 && line.ends_with(")") && whole[0].kind == PyExpr::Kind::Call &&
         isOfKind(whole[0], "adaptive_avg_pool2d");
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
        std::string scope = readScope(*kept).value_or("");
        std::string kind = operationOf(other), module = readScope(*node).value_or("");
        if (areOfOneCall(*kept, *node))
          continue;
        auto split = parameters.readsOfMerged.find({node, i});
        if (split != parameters.readsOfMerged.end())
          module = parameters.merged[split->second].module;
        else if (isSameInSource(*kept, scope, *node, kind, ""))
          continue;
        if (module != scope && isSameInSource(*kept, scope, *node, kind, module))
          continue;
        return MergedRead{
            node, "reads '%" + *name + "', which the export merged with node '" +
                      displayName(kept->name()) +
                      "'. The two may have different gradients, as of a detached value, and their "
                      "lines of source do not show that they are the same. Export with "
                      "torch.onnx.export(..., optimize=False), or pass --assume-merged " +
                      displayName(maker->fx.target) +
                      " if none of the merged operations of this kind is detached or under "
                      "no_grad"};
      }
    }
  }
  return std::nullopt;
}
