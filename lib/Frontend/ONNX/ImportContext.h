//===- ImportContext.h - What all stages of an import share ---------------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORTCONTEXT_H
#define SHALE_FRONTEND_ONNX_IMPORTCONTEXT_H

#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Reader/Scope.h"
#include "lib/Frontend/ONNX/Rules/Refusal.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace shale::onnx {

/// A tensor that is not a parameter and has at most this many bytes is a constant.
inline constexpr int64_t kConstantLimit = int64_t(16) << 20;
inline constexpr int64_t kMaxNodes = 1000000;
/// Calls of functions, and graphs in attributes, are nested at most this deep.
inline constexpr int kMaxCallDepth = 100;

/// Returns "node 'NAME' (TYPE)".
std::string placeOf(const NodeProto &node);

/// Moves the result of a stage into a variable; fails if the stage has.
template <typename T> mlir::LogicalResult take(mlir::FailureOr<T> result, T &into) {
  if (mlir::succeeded(result))
    into = std::move(*result);
  return mlir::success(mlir::succeeded(result));
}

/// The initializers of the model's graph, by name, and its functions.
struct Definitions {
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<const FunctionProto *> functions; // by domain, name and overload

  /// Returns the function that a node calls; null if its operator is none.
  const FunctionProto *functionOf(const NodeProto &node) const;
};

using NodeSet = llvm::DenseSet<const NodeProto *>;
/// The ratio of a dropout of operand 0 of a MatMul, which the export left out.
using LostDropout = llvm::DenseMap<const NodeProto *, double>;

class TracedProgram;

/// The file and the options of an import, what its graph defines, the module that it builds, and
/// its messages.
class ImportContext {
public:
  ImportContext(Model &model, const ImportOptions &options, mlir::ModuleOp module,
                mlir::Block &body);

  Model &model;
  const ImportOptions &options;
  mlir::ModuleOp module;
  /// The body of the forward function.
  mlir::Block &body;
  /// Builds at the end of the body.
  mlir::OpBuilder builder;

  /// The values of the names in the model's graph. Stages add to them.
  Scope scope;
  Definitions definitions;
  /// The nodes that the loss and the gradients are computed from.
  NodeSet needed;
  /// The program that PyTorch traced, as far as the file has it.
  std::shared_ptr<const TracedProgram> program;

  const GraphProto &graph() const { return model.proto().graph(); }
  mlir::MLIRContext *mlirContext() const { return builder.getContext(); }
  /// Reads a tensor; fails if it exceeds kConstantLimit.
  llvm::Expected<mlir::DenseElementsAttr> readConstant(const TensorProto &tensor);

  // Messages have a part in the place of each "{}".

  /// Emits an error on the current node, else on the file. Converts to failure.
  template <typename... Parts>
  mlir::InFlightDiagnostic error(const llvm::Twine &pattern, Parts &&...parts) {
    return errorHere(sayAll(pattern, std::forward<Parts>(parts)...), SHALE_EXIT_DATA);
  }
  /// The same about a flag, which is another kind of error.
  template <typename... Parts>
  mlir::InFlightDiagnostic usage(const llvm::Twine &pattern, Parts &&...parts) {
    return errorHere(sayAll(pattern, std::forward<Parts>(parts)...), SHALE_EXIT_USAGE);
  }
  /// The same on a node of the file, whatever the current one is.
  template <typename... Parts>
  mlir::InFlightDiagnostic errorAt(const NodeProto &node, const llvm::Twine &pattern,
                                   Parts &&...parts) {
    return errorAt(locationOf(node),
                   placeOf(node) + ": " + sayAll(pattern, std::forward<Parts>(parts)...));
  }
  /// The same on a place.
  mlir::InFlightDiagnostic errorAt(mlir::Location location, const llvm::Twine &message,
                                   int code = SHALE_EXIT_DATA);
  /// The same of refusals: of one at its node, of several on the file.
  mlir::InFlightDiagnostic refuse(llvm::ArrayRef<Refusal> refusals);
  bool hasFailed() const { return failed; }
  /// The kind of the last error (include/shale/Runtime.h).
  int getExitCode() const { return exitCode; }
  /// Emits a note about a choice; shown by default.
  template <typename... Parts> void note(const llvm::Twine &pattern, Parts &&...parts) {
    emitNote(fileLocation(),
             (model.path() + ": ").str() + sayAll(pattern, std::forward<Parts>(parts)...));
  }
  /// Emits a remark about a choice.
  template <typename... Parts> void remark(const llvm::Twine &pattern, Parts &&...parts) {
    emitDecision(fileLocation(), "import", sayAll(pattern, std::forward<Parts>(parts)...));
  }

  mlir::Location fileLocation() const;
  mlir::Location locationOf(const NodeProto &node) const;
  /// Returns the scope of a module, without the prefix that all parameters share.
  std::string scopeOf(llvm::StringRef module) const;
  /// Sets that prefix; empty before.
  void setPrefix(std::string shared) { prefix = std::move(shared); }

  /// The node that is imported, and what errors call it.
  struct Place {
    const NodeProto *node = nullptr;
    std::string text;
  };
  /// Makes a node the current one. Returns the one before, for leave().
  Place enter(const NodeProto &node, std::string text) {
    return std::exchange(current, {&node, std::move(text)});
  }
  /// Leaves the current node. Not called after an error: later ones name the node that failed.
  void leave(Place outer) { current = std::move(outer); }

  /// Counts nodes, with functions and loops unrolled. Fails, with an error, if there are too many.
  mlir::LogicalResult countWork(int64_t nodes);
  /// Returns the next number for a random op; they count in graph order.
  int64_t takeRandomId() { return randomOps++; }

private:
  mlir::InFlightDiagnostic errorHere(const llvm::Twine &message, int code);

  int exitCode = SHALE_EXIT_DATA;
  bool failed = false;
  Place current;
  std::string prefix;
  int64_t nodeCount = 0, randomOps = 0;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_IMPORTCONTEXT_H
