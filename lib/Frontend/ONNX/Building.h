//===- Building.h - From nodes to ops -------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_BUILDING_H
#define SHALE_FRONTEND_ONNX_BUILDING_H

#include "lib/Folding/ConstantFolder.h"
#include "lib/Frontend/ONNX/Inputs/Inputs.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"

namespace shale::onnx {

/// A gradient of a loss of log-probabilities.
struct LossGradient {
  mlir::Value grad, logs, target, total;
  int64_t ignore = 0;
  bool isMean = false;
};

/// Imports nodes, in the order of the file: their results are in their scopes then. A handler may
/// use it in addition to its node: constants, states and random numbers of the model, graphs in
/// attributes, and facts about values.
class Building {
public:
  /// `initial`: values that replace those of initializers. `scopesAreLost`: the nodes of the
  /// model's graph name no modules, and take the scope of the parameter that was read last.
  Building(ImportContext &context, Inputs &inputs, ConstantFolder &folder, const States &states,
           const InitialValues &initial, const LostDropout &lostDropout, bool scopesAreLost)
      : builder(context.builder), context(context), states(states), lostDropout(lostDropout),
        inputs(inputs), folder(folder), initial(initial), parameters(states.parameters),
        scopesAreLost(scopesAreLost) {}

  mlir::OpBuilder &builder;
  ImportContext &context;
  const States &states;
  const LostDropout &lostDropout;
  /// Losses that are known to be a sum over a count.
  KnownLosses lossParts;
  /// Results of LogSoftmax over the last dimension, with their operand.
  llvm::DenseMap<mlir::Value, mlir::Value> logSoftmaxOf;
  /// Means and deviations of rows, with the normalization that computes them, too.
  llvm::DenseMap<mlir::Value, mlir::Operation *> normOf;
  /// The operands of calls of nll_loss_backward, by the name of the result in the model's graph.
  llvm::StringMap<LossGradient> lossGradients;
  /// The classes of module scopes.
  llvm::StringMap<std::string> classes;

  /// Imports a node that reads values of `scope`. `depth`: of calls and subgraphs around it.
  mlir::LogicalResult importNode(const NodeProto &proto, Scope &scope, int depth);
  /// Imports a graph in an attribute of `node`, and returns its outputs. `what` names it in errors.
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(Node &node, const GraphProto &graph,
                                                          llvm::StringRef what,
                                                          llvm::ArrayRef<Binding> inputs);

  /// Returns an initializer as a constant, of other values if they are given.
  mlir::FailureOr<Binding> constantIn(const TensorProto &tensor, mlir::Location location,
                                      mlir::DenseElementsAttr values = {});
  /// Returns the value as a constant, computed if possible; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value) { return folder.constantOf(value); }
  /// Returns what constantOf returns with size 1 along dimensions in which it is known not to
  /// change.
  mlir::DenseElementsAttr distinctOf(mlir::Value value) { return folder.distinctOf(value); }
  /// Completes a new op: sets its module scope, and folds it. Returns its result.
  mlir::Value finish(mlir::Operation *op);
  /// Sets the module scope of an op if it is known.
  void mark(mlir::Operation *op) const;
  /// Returns the scalar argument of that role, from which random ops draw.
  mlir::Value randomArgument(nn::Role role) { return inputs.random(context, role); }
  /// Whether a node or an output of the model's graph reads a name.
  bool isRead(llvm::StringRef name);

private:
  // Operands.
  mlir::FailureOr<llvm::SmallVector<Binding>> readOperands(const NodeProto &node, Scope &scope);
  mlir::FailureOr<mlir::Value> resolve(const NodeProto &node, int operand, Scope &scope);
  mlir::FailureOr<mlir::Value> initializerOf(const NodeProto &node, int operand, Scope &scope);

  mlir::FailureOr<mlir::Value> restored(const NodeProto &node, const Expression &expression,
                                        mlir::Value input, mlir::RankedTensorType type);
  mlir::FailureOr<mlir::Value> mergedValue(size_t number, llvm::StringRef name, Scope &scope);
  mlir::Value parameterIn(const TensorProto &tensor, const NodeProto &node);
  mlir::Value lostBiasOf(const NodeProto &node) const;

  // Nodes.
  void enterModule(const NodeProto &node);
  mlir::LogicalResult translate(Node &node);
  mlir::LogicalResult addBias(Node &node, mlir::Value bias);
  mlir::LogicalResult finishNarrow(Node &node);
  mlir::LogicalResult importInitializers(Node &node, const GraphProto &graph, llvm::StringRef what,
                                         Scope &inner);

  Inputs &inputs;
  ConstantFolder &folder;
  const InitialValues &initial;
  const Parameters &parameters;
  const bool scopesAreLost;
  /// Scope of the module whose node is being imported; "" for the model itself, none if unknown.
  std::optional<std::string> module;
  std::string lastModule;        // of the parameter that was read last
  llvm::StringSet<> readInGraph; // filled at the first call of isRead
  /// By index into parameters.merged and name.
  std::vector<llvm::StringMap<mlir::Value>> mergedValues;
  /// The merged operation whose nodes are imported now.
  const MergedOperation *merging = nullptr;
  /// Initializers of subgraphs for which a remark was emitted.
  llvm::DenseSet<const TensorProto *> remarked;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_BUILDING_H
