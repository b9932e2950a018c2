//===- Rebuild.h - What partition and materialize-units share -------------===//
#ifndef SHALE_PASSES_SHARDING_REBUILD_H
#define SHALE_PASSES_SHARDING_REBUILD_H

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"
#include "lib/Support/OpCopies.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/sharding/TensorLayout.h"

namespace shale {
inline namespace sharding {

/// Copies the attributes of the op that is being rebuilt, except for its shardings.
struct CopyUnsharded : CopyAttributes {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint point) override {
    if (op == current || mlir::isa<mlir::func::FuncOp>(op))
      return;
    CopyAttributes::notifyOperationInserted(op, point);
    removeLayouts(op);
  }
};

/// Returns the mesh of a module that has functions; null after an error.
dist::MeshOp meshOfFunctions(mlir::ModuleOp module);

/// Checks what these passes take for granted of a function: a body of one block, arguments that are
/// static tensors of the types of their states, each state once, updates whose operands are the
/// parameter and its moments, and results of updates that are returned as new
/// values of these. Fails after an error.
mlir::LogicalResult verifyStateUses(mlir::func::FuncOp function, dist::MeshOp mesh);

/// Rebuilds the ops of `function` in `fresh`, one by one in order by `rebuild`, and then erases
/// `function`. New ops take the attributes of the old op through `listener`. After an error erases
/// `fresh` instead.
mlir::LogicalResult
rebuildFunction(mlir::func::FuncOp function, mlir::func::FuncOp fresh, CopyUnsharded &listener,
                llvm::function_ref<mlir::LogicalResult(mlir::Operation *)> rebuild);

/// Ends the rebuilt function with a return of `results`, and sets its type.
void returnFrom(mlir::func::FuncOp fresh, mlir::OpBuilder &builder, mlir::Location loc,
                mlir::ValueRange results);

/// Gives every value of a function a layout, `dist.shardings` (Propagate.cpp). Fails after an
/// error.
mlir::LogicalResult propagate(mlir::func::FuncOp function, dist::MeshOp mesh);

/// Rebuilds a reduction over the elements of all its operands (ElementReductionOpInterface) from
/// parts. Operands whose parts are summed over the same axes are reduced by one op.
class ElementReduction {
public:
  explicit ElementReduction(mlir::Operation *op) : op(op) {}
  void add(const AxisList &axes, mlir::Value part);
  /// Builds the reductions, their all-reduces and the sum of these.
  mlir::Value build(mlir::OpBuilder &builder);

private:
  mlir::Operation *op;
  llvm::SmallVector<std::pair<AxisList, llvm::SmallVector<mlir::Value>>> classes;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_REBUILD_H
