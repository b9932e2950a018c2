//===- Unsupported.cpp - Operators without a handler ----------------------===//
#include "lib/Analysis/Timeline.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Stages.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Fails, with an error, if a node is of nn.Embedding's max_norm: PyTorch rescales the rows of the
/// parameter itself before each lookup, beside its gradient.
static LogicalResult refuseMaxNorm(ImportContext &context, const NodeProto &node,
                                   const FxNode &fx) {
  if (!StringRef(fx.target).starts_with(words::kEmbeddingRenorm))
    return success();
  const Argument *norm = fx.argument(2);
  return context.refuse(
      Refusal(Reason::MaxNorm, &node, plain(norm ? displayName(norm->str()) : "..")));
}

/// Whether an operation has an argument that its nodes lack.
static bool hasLeftOut(const FxNode &fx, const words::LeftOut &rule, std::string &value) {
  StringRef target = fx.target;
  if (!target.consume_front(words::kAten) || target.split('.').first != rule.kind)
    return false;
  const Argument *argument = fx.argument(rule.position, rule.name);
  value = argument ? argument->str() : "None";
  return value != "None" && (rule.value.empty() || value == parseArgument(rule.value).str());
}

/// Fails, with an error, if a node's operation has an argument that the exporter leaves out.
static LogicalResult refuseLeftOut(ImportContext &context, const NodeProto &node,
                                   const FxNode &fx) {
  std::string value;
  const auto *rule = llvm::find_if(words::leftOutArguments(), [&](const words::LeftOut &rule) {
    return hasLeftOut(fx, rule, value);
  });
  if (rule == words::leftOutArguments().end())
    return success();
  return context.refuse(Refusal(
      Reason::LeftOut, &node,
      {plain(displayName(fx.target)), plain(rule->name),
       plain(rule->value.empty() ? displayName(value) : rule->value.str()), plain(rule->remedy)}));
}

namespace {

/// Collects the operators that have no handler, with their first nodes.
class UnsupportedOperators {
public:
  explicit UnsupportedOperators(const ImportContext &context) : context(context) {}

  /// Looks at a node, at the function that it calls, and at its graphs. `depth`: of calls.
  void visit(const NodeProto &node, const Scope &scope, int depth) {
    if (const FunctionProto *function = context.definitions.functionOf(node)) {
      // Recursion is reported when the call is followed.
      if (depth >= kMaxCallDepth || !visited.insert(function).second)
        return;
      Scope inner = functionScope(*function, scope);
      for (const NodeProto &called : function->node())
        visit(called, inner, depth + 1);
      return;
    }
    int64_t version = scope.opsetOf(node);
    if (!getHandlers().find(domainOf(node.domain()), node.op_type(), version))
      return add(node, version);
    // Only one branch of an If is imported: it is not known yet which one.
    if (node.op_type() != "If")
      for (const AttributeProto &attribute : node.attribute())
        for (const NodeProto &inner : attribute.g().node())
          visit(inner, scope, depth);
  }

  bool empty() const { return operators.empty(); }
  /// Describes them all, for an error.
  std::string list() const {
    std::string text =
        std::to_string(operators.size()) +
        (operators.size() == 1 ? " operator is not supported:" : " operators are not supported:");
    for (const auto &[key, uses] : operators)
      text += "\n  " + key + ": " + std::to_string(uses.count) +
              (uses.count == 1 ? " node" : " nodes") + ", first '" + uses.node + "'" +
              (uses.place.empty() ? "" : " (" + uses.place + ")");
    return text;
  }

private:
  struct Uses {
    std::string node, place; // of the first
    int64_t count = 0;
  };

  void add(const NodeProto &node, int64_t version) {
    std::string domain = node.domain().empty() ? "ai.onnx" : displayName(node.domain());
    std::string key = domain + " " + displayName(node.op_type()) +
                      (version ? ", opset " + std::to_string(version) : ", domain not imported");
    Uses &uses = operators[key];
    if (uses.count++ > 0)
      return;
    uses.node = displayName(nameOf(node));
    uses.place = sourcePlace(context.locationOf(node));
  }

  const ImportContext &context;
  llvm::MapVector<std::string, Uses, std::map<std::string, unsigned>> operators;
  llvm::SmallPtrSet<const FunctionProto *, 8> visited;
};

} // namespace

/// Fails, with an error, if the file has no operation of a name that a flag gives.
static LogicalResult checkNamed(ImportContext &context, StringRef flag,
                                std::vector<std::string> names) {
  llvm::erase_if(names, [&](StringRef name) { return context.program->hasOperation(name); });
  llvm::sort(names);
  if (names.empty())
    return success();
  return context.usage("{}: the file has no such operation; names are like aten.mul.Tensor",
                       plain((flag + " " + displayName(llvm::join(names, ", "))).str()));
}

LogicalResult onnx::checkSupported(ImportContext &context) {
  auto forms = context.options.parameters.assumedForms.keys();
  if (failed(checkNamed(context, "--assume-merged", context.options.assumeMerged)) ||
      failed(checkNamed(context, "--assume-form", {forms.begin(), forms.end()})))
    return failure();
  for (const NodeProto &node : context.graph().node())
    if (const TracedOperation *operation = context.program->ownerOf(node);
        operation && context.needed.contains(&node) &&
        (failed(refuseMaxNorm(context, node, operation->fx)) ||
         failed(refuseLeftOut(context, node, operation->fx))))
      return failure();
  UnsupportedOperators unsupported(context);
  for (const NodeProto &node : context.graph().node())
    if (context.needed.contains(&node))
      unsupported.visit(node, context.scope, 0);
  return unsupported.empty() ? success() : LogicalResult(context.error(unsupported.list()));
}
