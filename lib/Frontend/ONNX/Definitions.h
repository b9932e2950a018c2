//===- Definitions.h - What a graph defines, and what of it is imported ---===//
#ifndef SHALE_FRONTEND_ONNX_DEFINITIONS_H
#define SHALE_FRONTEND_ONNX_DEFINITIONS_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "llvm/ADT/DenseSet.h"

namespace shale::onnx {

/// Calls of functions, and graphs in attributes, are nested at most this deep.
inline constexpr int kMaxCallDepth = 100;

/// The initializers of the model's graph, by name, and its functions.
struct Definitions {
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<const FunctionProto *> functions; // by domain, name and overload

  /// Returns the function that a node calls; null if its operator is none.
  const FunctionProto *functionOf(const NodeProto &node) const;
};

using NodeSet = llvm::DenseSet<const NodeProto *>;

/// Reads the versions of operator sets, by domain. Fails, with an error, if the file's version or
/// that of the standard operators is not supported.
mlir::FailureOr<llvm::StringMap<int64_t>> readOpsets(ImportContext &context);

/// Fails, with an error, if a name is missing or is defined twice.
mlir::FailureOr<Definitions> readDefinitions(ImportContext &context);

/// Finds the nodes of the graph that `roots` are computed from. Fails, with an error, if nodes
/// define a name twice.
mlir::FailureOr<NodeSet> findNeeded(ImportContext &context, const Definitions &definitions,
                                    llvm::ArrayRef<llvm::StringRef> roots);

/// Fails, with one error for all, if operators of the needed nodes have no handler. `graph`: the
/// scope of the model's graph.
mlir::LogicalResult checkSupported(ImportContext &context, const Definitions &definitions,
                                   const NodeSet &needed, const Scope &graph);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_DEFINITIONS_H
