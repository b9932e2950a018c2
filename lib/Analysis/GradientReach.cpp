//===- GradientReach.cpp - Values that gradients reach --------------------===//
#include "lib/Analysis/GradientReach.h"
#include "dialects/interfaces/Interfaces.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

/// Adds the operands to which an op sends a gradient of its results that are `reached`. It builds
/// the gradient as autodiff does, and drops it.
static void reachOperands(Operation &op, llvm::DenseSet<Value> &reached) {
  SmallVector<Value> resultGrads;
  for (Value result : op.getResults())
    resultGrads.push_back(reached.contains(result) ? result : Value()); // of the gradient's type
  if (llvm::none_of(resultGrads, [](Value value) { return bool(value); }))
    return;
  SmallVector<bool> wanted;
  for (Value operand : op.getOperands())
    wanted.push_back(isa<FloatType>(getElementTypeOrSelf(operand)));
  SmallVector<Value> operandGrads(op.getNumOperands());
  Block scratch;
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(&scratch);
  ScopedDiagnosticHandler silent(op.getContext(), [](Diagnostic &) { return success(); });
  auto differentiable = dyn_cast<DifferentiableOpInterface>(&op);
  bool built = differentiable &&
               succeeded(differentiable.buildGradient(builder, resultGrads, wanted, operandGrads));
  // An op without a gradient counts as passing one: autodiff reports it.
  for (auto [operand, isWanted, grad] : llvm::zip(op.getOperands(), wanted, operandGrads))
    if (isWanted && (grad || !built))
      reached.insert(operand);
}

llvm::DenseSet<Value> shale::reachedByGradients(Block &body, ArrayRef<Value> roots) {
  llvm::DenseSet<Value> reached;
  reached.insert_range(roots);
  for (Operation &op : llvm::reverse(body))
    reachOperands(op, reached);
  return reached;
}
