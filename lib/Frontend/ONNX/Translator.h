//===- Translator.h - From nodes to ops -----------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_TRANSLATOR_H
#define SHALE_FRONTEND_ONNX_TRANSLATOR_H

#include "lib/Frontend/ONNX/Building.h"

namespace shale::onnx {

/// Imports nodes, in the order of the file. Their results are in their scopes then.
class Translator {
public:
  /// `initial`: values that replace those of initializers. `scopesAreLost`: the nodes of the
  /// model's graph name no modules.
  Translator(ImportContext &context, Inputs &inputs, ConstantFolder &folder, const States &states,
             const InitialValues &initial, const LostDropout &lostDropout, bool scopesAreLost);

  /// Imports the nodes of the model's graph that are needed.
  mlir::LogicalResult importNeeded();
  /// Imports a node that reads values of `scope`. `depth`: of calls and subgraphs around it.
  mlir::LogicalResult importNode(const NodeProto &proto, Scope &scope, int depth);
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(Node &node, const GraphProto &graph,
                                                          llvm::StringRef what,
                                                          llvm::ArrayRef<Binding> inputs);

  /// The losses among the values.
  const KnownLosses &getLosses() const { return building.lossParts; }
  /// The classes of module scopes.
  const llvm::StringMap<std::string> &getClasses() const { return building.scopes.getClasses(); }

private:
  // Operands.
  mlir::FailureOr<Operands> readOperands(const NodeProto &node, Scope &scope);
  mlir::FailureOr<mlir::Value> resolve(const NodeProto &node, int operand, Scope &scope);
  mlir::FailureOr<mlir::Value> resolveRead(const NodeProto &node, int operand, Scope &scope);
  mlir::FailureOr<mlir::Value> useOf(const NodeProto &node, int operand, const ParameterUse &use);
  mlir::FailureOr<mlir::Value> initializerOf(const NodeProto &node, int operand, Scope &scope);
  mlir::FailureOr<mlir::Value> restored(const NodeProto &node, const Expression &expression,
                                        mlir::Value input, mlir::RankedTensorType type);
  mlir::FailureOr<mlir::Value> mergedValue(size_t number, llvm::StringRef name, Scope &scope);
  mlir::Value parameterIn(const TensorProto &tensor, const NodeProto &node);
  mlir::Value lostBiasOf(const NodeProto &node) const;

  // Nodes.
  mlir::LogicalResult translate(Node &node);
  mlir::LogicalResult markSeed(Node &node);
  mlir::LogicalResult addBias(Node &node, mlir::Value bias);
  mlir::LogicalResult finishNarrow(Node &node);
  mlir::LogicalResult callFunction(const FunctionProto &function, Node &node);
  mlir::LogicalResult importInitializers(Node &node, const GraphProto &graph, llvm::StringRef what,
                                         Scope &inner);

  ImportContext &context;
  const States &states;
  const InitialValues &initial;
  const Parameters &parameters;
  Building building;
  /// By index into parameters.merged and name.
  std::vector<llvm::StringMap<mlir::Value>> mergedValues;
  /// The merged operation whose nodes are imported now.
  const MergedOperation *merging = nullptr;
  /// Initializers of subgraphs for which a remark was emitted.
  llvm::DenseSet<const TensorProto *> remarked;
};

/// Imports a call of a function by an op that computes the same, and sets the call's results. The
/// function must have the body that the export writes, not only its name. Returns false, with no
/// error, if the body is to be imported instead: it is another one, or no op fits the operands.
bool importWhole(const FunctionProto &function, Node &node);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRANSLATOR_H
