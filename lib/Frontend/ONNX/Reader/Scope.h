//===- Scope.h - The names that nodes read and define ---------------------===//
#ifndef SHALE_FRONTEND_ONNX_READER_SCOPE_H
#define SHALE_FRONTEND_ONNX_READER_SCOPE_H

#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

/// The names, operator sets and attributes that are visible to the nodes of a
/// graph or function.
struct Scope {
  llvm::StringMap<Binding> values;
  /// The scope around a subgraph; null for the model's graph and for functions.
  Scope *outer = nullptr;
  llvm::StringMap<int64_t> opsets;
  llvm::StringMap<const AttributeProto *> attributes; // of the function's call
  llvm::StringSet<> absent; // inputs of a function that its call leaves out
  std::string path;         // of calls, for messages

  /// Returns the value of a name here or in a scope around; null if there is none.
  const Binding *find(llvm::StringRef name) const;
  /// Returns a name that has no value here: the wanted one, or that with "_" at its end.
  std::string freeName(std::string wanted) const {
    while (values.count(wanted))
      wanted += "_";
    return wanted;
  }
  /// Whether this is `graph`, or the scope of a subgraph in it.
  bool isIn(const Scope &graph) const;
  /// Returns the version of the operator set that has a node's operator; 0 if none is imported.
  int64_t opsetOf(const NodeProto &node) const;
};

/// "ai.onnx" is another name of the standard operators' domain.
inline llvm::StringRef domainOf(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

/// Returns the scope of a function's nodes before its operands are bound.
Scope functionScope(const FunctionProto &function, const Scope &caller);

/// Calls `visit` for each operand of a node, and of the nodes in its subgraphs that is defined
/// outside of these.
void forEachRead(const NodeProto &node, llvm::function_ref<void(const NodeProto &, int)> visit);
/// Calls `visit` for each name that a node or its subgraphs read and do not define themselves.
void forEachNameRead(const NodeProto &node, llvm::function_ref<void(llvm::StringRef)> visit);

/// Returns the names that nodes or outputs of a graph read.
llvm::StringSet<> namesRead(const GraphProto &graph);

/// Returns the names of inputs, outputs or initializers.
template <typename Protos> llvm::StringSet<> namesOf(const Protos &protos) {
  llvm::StringSet<> names;
  for (const auto &proto : protos)
    names.insert(proto.name());
  return names;
}

/// Calls `visit` for each name that a graph defines: its inputs, its initializers and its nodes'
/// results, which may be empty.
void forEachDefined(const GraphProto &graph, llvm::function_ref<void(llvm::StringRef)> visit);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_READER_SCOPE_H
