//===- Building.h - What a handler may use beside its node ----------------===//
#ifndef SHALE_FRONTEND_ONNX_BUILDING_H
#define SHALE_FRONTEND_ONNX_BUILDING_H

#include "lib/Frontend/ONNX/Fold.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/States.h"

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

  /// Enters the module of a node. Returns the scope before, for leave(). `merged`: the merged
  /// operation that the node is imported for, or null.
  std::optional<std::string> enter(const NodeProto &node, const MergedOperation *merged);
  /// Leaves the module. Not called after an error, which ends the import.
  void leave(std::optional<std::string> outer) { current = std::move(outer); }

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

class Translator;

/// A gradient of a loss of log-probabilities.
struct LossGradient {
  mlir::Value grad, logs, target, total;
  int64_t ignore = 0;
  bool isMean = false;
};

/// The parts of an import that a handler may use in addition to its node: constants, states and
/// random numbers of the model, graphs in attributes, and facts about values.
class Building {
public:
  /// `scopesAreLost`: see Scopes.
  Building(ImportContext &context, Inputs &inputs, ConstantFolder &folder, const States &states,
           const LostDropout &lostDropout, bool scopesAreLost, Translator &translator)
      : builder(context.builder), context(context), states(states), lostDropout(lostDropout),
        scopes(context, states.parameters, scopesAreLost), inputs(inputs), folder(folder),
        translator(translator) {}

  mlir::OpBuilder &builder;
  ImportContext &context;
  const States &states;
  const LostDropout &lostDropout;
  Scopes scopes;
  /// Losses that are known to be a sum over a count.
  KnownLosses lossParts;
  /// Results of LogSoftmax over the last dimension, with their operand.
  llvm::DenseMap<mlir::Value, mlir::Value> logSoftmaxOf;
  /// Means and deviations of rows, with the normalization that computes them, too.
  llvm::DenseMap<mlir::Value, mlir::Operation *> normOf;
  /// The operands of calls of nll_loss_backward, by the name of the result in the model's graph.
  llvm::StringMap<LossGradient> lossGradients;

  /// Returns the value as a constant, computed if possible; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value) { return folder.constantOf(value); }
  /// Completes a new op: sets its module scope, and folds it. Returns its result.
  mlir::Value finish(mlir::Operation *op);
  /// Imports a graph in an attribute of `node`, and returns its outputs. `what` names it in errors.
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(Node &node, const GraphProto &graph,
                                                          llvm::StringRef what,
                                                          llvm::ArrayRef<Binding> inputs);
  /// Returns the scalar argument of that role, from which random ops draw.
  mlir::Value randomArgument(nn::Role role) { return inputs.random(context, role); }
  /// Whether a node or an output of the model's graph reads a name.
  bool isRead(llvm::StringRef name);

private:
  Inputs &inputs;
  ConstantFolder &folder;
  Translator &translator;
  llvm::StringSet<> namesRead; // filled at the first call of isRead
};

/// Returns the ONNX data type of a result if that is a narrow integer, else 0. `value` is the
/// result.
int32_t narrowResult(Node &node, int result, mlir::Value value);

/// Reduces a result of the node to a narrow type, unless the operator only moves or chooses
/// elements. Returns null after an error.
mlir::Value reduced(Node &node, mlir::Value value, int32_t dataType);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_BUILDING_H
