//===- Scope.cpp - The names that nodes read and define -------------------===//
#include "lib/Frontend/ONNX/Scope.h"

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

/// The names that a graph and the graphs around it define.
struct DefinedNames {
  llvm::StringSet<> names;
  const DefinedNames *outer = nullptr;

  bool contains(StringRef name) const {
    return names.contains(name) || (outer && outer->contains(name));
  }
};

/// Visits what a node reads from outside of its subgraphs; `inner` are the names that graphs around
/// it define. Outputs of subgraphs are visited as operand -1.
static void visitReads(const NodeProto &node, const DefinedNames *inner, Visit visit) {
  auto read = [&](int operand, StringRef name) {
    if (!name.empty() && !(inner && inner->contains(name)))
      visit(node, operand, name);
  };
  for (int i = 0; i < node.input_size(); ++i)
    read(i, node.input(i));
  for (const AttributeProto &attribute : node.attribute()) {
    if (!attribute.has_g())
      continue;
    DefinedNames defined{{}, inner};
    forEachDefined(attribute.g(), [&](StringRef name) { defined.names.insert(name); });
    for (const NodeProto &called : attribute.g().node())
      visitReads(called, &defined, visit);
    for (const ValueInfoProto &output : attribute.g().output())
      if (!defined.contains(output.name()))
        read(-1, output.name());
  }
}

void onnx::forEachRead(const NodeProto &node,
                       llvm::function_ref<void(const NodeProto &, int)> visit) {
  visitReads(node, nullptr, [&](const NodeProto &reader, int operand, StringRef) {
    if (operand >= 0)
      visit(reader, operand);
  });
}

void onnx::forEachNameRead(const NodeProto &node, llvm::function_ref<void(StringRef)> visit) {
  visitReads(node, nullptr, [&](const NodeProto &, int, StringRef name) { visit(name); });
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
