//===- Scope.cpp - What graphs define, and what nodes read ----------------===//
#include "lib/Frontend/ONNX/Stages.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

using Visit = llvm::function_ref<void(const NodeProto &, int, StringRef)>;

void onnx::forEachDefined(const GraphProto &graph, llvm::function_ref<void(StringRef)> visit) {
  for (const ValueInfoProto &input : graph.input())
    visit(input.name());
  for (const TensorProto &tensor : graph.initializer())
    visit(tensor.name());
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      visit(name);
}

/// Visits what a node reads from outside of its subgraphs. `inner`: how many of the graphs around
/// it define a name. Outputs of subgraphs are visited as operand -1.
static void visitReads(const NodeProto &node, llvm::StringMap<int> &inner, Visit visit) {
  auto read = [&](int operand, StringRef name) {
    if (!name.empty() && inner.lookup(name) == 0)
      visit(node, operand, name);
  };
  for (int i = 0; i < node.input_size(); ++i)
    read(i, node.input(i));
  for (const AttributeProto &attribute : node.attribute()) {
    forEachDefined(attribute.g(), [&](StringRef name) { ++inner[name]; });
    for (const NodeProto &called : attribute.g().node())
      visitReads(called, inner, visit);
    for (const ValueInfoProto &output : attribute.g().output())
      read(-1, output.name());
    forEachDefined(attribute.g(), [&](StringRef name) { --inner[name]; });
  }
}

void onnx::forEachRead(const NodeProto &node,
                       llvm::function_ref<void(const NodeProto &, int)> visit) {
  llvm::StringMap<int> inner;
  visitReads(node, inner, [&](const NodeProto &reader, int operand, StringRef) {
    if (operand >= 0)
      visit(reader, operand);
  });
}

void onnx::forEachNameRead(const NodeProto &node, llvm::function_ref<void(StringRef)> visit) {
  llvm::StringMap<int> inner;
  visitReads(node, inner, [&](const NodeProto &, int, StringRef name) { visit(name); });
}

llvm::StringSet<> onnx::namesRead(const GraphProto &graph) {
  llvm::StringSet<> read = namesOf(graph.output());
  for (const NodeProto &node : graph.node())
    forEachNameRead(node, [&](StringRef name) { read.insert(name); });
  return read;
}

const Binding *Scope::find(StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->outer)
    if (auto it = scope->values.find(name); it != scope->values.end())
      return &it->second;
  return nullptr;
}

bool Scope::isIn(const Scope &graph) const {
  const Scope *at = this;
  while (at->outer)
    at = at->outer;
  return at == &graph;
}

int64_t Scope::opsetOf(const NodeProto &node) const {
  auto it = opsets.find(domainOf(node.domain()));
  return it == opsets.end() ? 0 : it->second;
}

Scope onnx::functionScope(const FunctionProto &function, const Scope &caller) {
  Scope scope;
  for (const OperatorSetIdProto &opset : function.opset_import())
    scope.opsets[domainOf(opset.domain())] = opset.version();
  if (scope.opsets.empty())
    scope.opsets = caller.opsets;
  return scope;
}

//===----------------------------------------------------------------------===//
// The model's graph
//===----------------------------------------------------------------------===//

/// The oldest and the newest operator set of the standard domain that Shale supports.
static constexpr int64_t kOldestOpset = 11, kNewestOpset = 28;

FailureOr<llvm::StringMap<int64_t>> onnx::readOpsets(ImportContext &context) {
  const ModelProto &proto = context.model.proto();
  if (!proto.has_ir_version() || proto.ir_version() < 3)
    return context.error("no ir_version, or one before 3: export the model again");
  llvm::StringMap<int64_t> opsets;
  for (const OperatorSetIdProto &opset : proto.opset_import()) {
    StringRef domain = domainOf(opset.domain());
    if (opset.version() < 1 || opset.version() > INT32_MAX)
      return context.error("operator set {} has version {}", domain, opset.version());
    // If a domain is imported twice, the higher version holds (ONNX,
    // docs/IR.md).
    int64_t &version = opsets[domain];
    version = std::max(version, opset.version());
  }
  int64_t standard = opsets.lookup("");
  if (standard == 0)
    return context.error("the file imports no operator set of the standard domain (opset_import)");
  if (standard < kOldestOpset)
    return context.error("operator set {} is older than {}: export with opset 18 or later",
                         standard, kOldestOpset);
  if (standard > kNewestOpset)
    return context.error(
        "operator set {} is newer than {}, the newest that Shale supports: export with opset 23",
        standard, kNewestOpset);
  return opsets;
}

static std::string functionKey(StringRef domain, StringRef name, StringRef overload) {
  return (domainOf(domain) + "::" + name + "::" + overload).str();
}

const FunctionProto *Definitions::functionOf(const NodeProto &node) const {
  return functions.lookup(functionKey(node.domain(), node.op_type(), node.overload()));
}

LogicalResult onnx::readDefinitions(ImportContext &context) {
  Definitions &definitions = context.definitions;
  if (context.graph().sparse_initializer_size() > 0)
    return context.error("sparse initializers are not supported");
  for (const TensorProto &tensor : context.graph().initializer()) {
    if (tensor.name().empty())
      return context.error("an initializer has no name");
    if (!definitions.initializers.try_emplace(tensor.name(), &tensor).second)
      return context.error("initializer {} is defined twice", tensor.name());
  }
  for (const FunctionProto &function : context.model.proto().functions()) {
    std::string key = functionKey(function.domain(), function.name(), function.overload());
    if (!definitions.functions.try_emplace(key, &function).second)
      return context.error("function {} is defined twice", function.name());
  }
  return success();
}

LogicalResult onnx::findNeeded(ImportContext &context, ArrayRef<StringRef> roots) {
  const GraphProto &graph = context.graph();
  if (graph.node_size() > kMaxNodes)
    return context.error("more than {} nodes", kMaxNodes);
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      if (!name.empty() && (context.definitions.initializers.count(name) ||
                            !producers.try_emplace(name, &node).second))
        return context.errorAt(node, "value {} is defined twice", name);
  SmallVector<StringRef> work(roots);
  while (!work.empty()) {
    const NodeProto *node = producers.lookup(work.pop_back_val());
    if (node && context.needed.insert(node).second)
      forEachNameRead(*node, [&](StringRef name) { work.push_back(name); });
  }
  return success();
}
