//===- Building.h - What a handler may use beside its node ----------------===//
#ifndef SHALE_FRONTEND_ONNX_BUILDING_H
#define SHALE_FRONTEND_ONNX_BUILDING_H

#include "lib/Frontend/ONNX/Fold.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/Lost.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Scopes.h"
#include "lib/Frontend/ONNX/States.h"

namespace shale::onnx {

/// Imports the graphs in attributes of nodes.
class GraphImporter {
public:
  /// Imports the nodes of a graph in an attribute of `node` and returns its outputs. `what` names
  /// it in errors.
  virtual mlir::FailureOr<llvm::SmallVector<Binding>>
  importGraph(Node &node, const GraphProto &graph, llvm::StringRef what,
              llvm::ArrayRef<Binding> inputs) = 0;

protected:
  ~GraphImporter() = default;
};

/// A gradient of a loss of log-probabilities.
struct LossGradient {
  mlir::Value grad, logs, target, total;
  int64_t ignore = 0;
  bool isMean = false;
};

/// The services that a handler may use beside its node: constants, states and random numbers of the
/// model, graphs in attributes, and facts about values.
class Building {
public:
  /// `graph`: the scope of the model's graph.
  Building(ImportContext &context, Scope &graph, Inputs &inputs, ConstantFolder &folder,
           const States &states, const LostDropout &lostDropout, const Scopes &scopes,
           GraphImporter &graphs)
      : builder(context.builder), context(context), graph(graph), inputs(inputs), folder(folder),
        states(states), lostDropout(lostDropout), scopes(scopes), graphs(graphs) {}

  mlir::OpBuilder &builder;
  /// Losses that are known to be a sum over a count.
  KnownLosses lossParts;
  /// Results of LogSoftmax over the last dimension, with their operand.
  llvm::DenseMap<mlir::Value, mlir::Value> logSoftmaxOf;
  /// Means and deviations of rows, with the normalization that computes them, too.
  llvm::DenseMap<mlir::Value, mlir::Operation *> normOf;
  /// The operands of calls of nll_loss_backward, by the name of the result in the model's graph.
  llvm::StringMap<LossGradient> lossGradients;

  /// Emits an error on the node that is imported now. Converts to failure.
  mlir::InFlightDiagnostic error(const llvm::Twine &message) { return context.error(message); }
  mlir::Location locationOf(const NodeProto &node) const { return context.locationOf(node); }
  /// Returns a hint for an error about `wants` positions where the model has
  /// `has`: which --dim is too large. `tables` are the values with `has`
  /// positions. Empty if no dimension has about that size.
  std::string positionsHint(llvm::ArrayRef<mlir::Value> tables, int64_t has, int64_t wants) const;
  /// Returns a hint for an error about sizes of `values` that do not broadcast.
  std::string broadcastHint(llvm::ArrayRef<mlir::Value> values, int64_t one, int64_t other) const;

  /// Returns the value as a constant, computed if possible; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value) { return folder.constantOf(value); }
  /// Reads a tensor of an attribute; fails if it exceeds kConstantLimit.
  llvm::Expected<mlir::DenseElementsAttr> readConstant(const TensorProto &tensor) {
    return context.readConstant(tensor);
  }
  /// Sets the module scope of a new op.
  void setScope(mlir::Operation *op) const { scopes.mark(op); }
  /// Completes a new op: sets its module scope, and folds it. Returns its result.
  mlir::Value finish(mlir::Operation *op);
  /// Imports a graph in an attribute of `node`, and returns its outputs. `what` names it in errors.
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(Node &node, const GraphProto &graph,
                                                          llvm::StringRef what,
                                                          llvm::ArrayRef<Binding> inputs) {
    return graphs.importGraph(node, graph, what, inputs);
  }

  /// Returns the scalar argument of that role, from which random ops draw.
  mlir::Value randomArgument(nn::Role role) { return inputs.random(context, graph, role); }
  /// Returns the next number for a random op; they count in graph order.
  int64_t takeRandomId() { return context.takeRandomId(); }
  /// The ratio that the user gives for all dropouts, if any.
  std::optional<double> dropoutRatio() const { return context.options.dropout; }
  /// Returns the ratio of the dropout that the export left out before operand 0 of a MatMul, if it
  /// left one out.
  std::optional<double> lostDropoutOf(const NodeProto &node) const;

  /// Whether PyTorch wrote the file.
  bool isFromPyTorch() const { return context.model.proto().producer_name() == "pytorch"; }
  /// Whether a node or an output of the model's graph reads a name.
  bool isRead(llvm::StringRef name);
  /// Whether the value is a parameter or buffer itself.
  bool isState(mlir::Value value) const { return states.contains(value); }
  /// Returns the name of a parameter that the value is computed from, without a stop of gradients
  /// between the two; empty if there is none.
  std::string parameterBehind(mlir::Value value) const;

private:
  ImportContext &context;
  Scope &graph;
  Inputs &inputs;
  ConstantFolder &folder;
  const States &states;
  const LostDropout &lostDropout;
  const Scopes &scopes;
  GraphImporter &graphs;
  llvm::StringSet<> namesRead; // filled at the first call of isRead
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_BUILDING_H
