//===- Scopes.h - The modules of PyTorch that nodes come from -------------===//
#ifndef SHALE_FRONTEND_ONNX_SCOPES_H
#define SHALE_FRONTEND_ONNX_SCOPES_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include <optional>

namespace shale::onnx {

/// Tells the module scope of each op while nodes are imported, and collects the classes of scopes.
class Scopes {
public:
  /// `areLost`: nodes name no modules, and take the scope of the parameter that was read last.
  Scopes(const ImportContext &context, const Parameters &parameters, bool areLost)
      : context(context), parameters(parameters), areLost(areLost) {}

  /// Sets the module scope of an op if it is known.
  void mark(mlir::Operation *op) const;
  /// The classes of module scopes.
  const llvm::StringMap<std::string> &getClasses() const { return classes; }

  /// Enters the module of a node until its scope ends. `merged`: the merged operation that the node
  /// is imported for, or null.
  class Entered {
  public:
    Entered(Scopes &scopes, const NodeProto &node, const MergedOperation *merged);
    ~Entered() { scopes.current = std::move(outer); }

  private:
    Scopes &scopes;
    std::optional<std::string> outer;
  };

private:
  std::optional<std::string> scopeOf(const NodeProto &node, const MergedOperation *merged);

  const ImportContext &context;
  const Parameters &parameters;
  const bool areLost;
  /// Scope of the module whose node is being imported; "" for the model itself,
  /// none if unknown.
  std::optional<std::string> current;
  std::string last; // of the parameter that was read last
  llvm::StringMap<std::string> classes;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_SCOPES_H
