//===- Rebuild.h - What partition and materialize-units share -------------===//
#ifndef SHALE_PASSES_SHARDING_REBUILD_H
#define SHALE_PASSES_SHARDING_REBUILD_H

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/sharding/Layout.h"

namespace shale {
inline namespace sharding {

/// Copies the attributes (phase, scope, policies) of `current`, the op that is being rebuilt, to
/// the ops built for it, except for its shardings.
struct CopyAttributes : mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    if (!current || op == current || mlir::isa<mlir::func::FuncOp>(op))
      return;
    for (mlir::NamedAttribute attr : current->getDiscardableAttrs())
      if (!op->hasAttr(attr.getName()))
        op->setDiscardableAttr(attr.getName(), attr.getValue());
    op->removeDiscardableAttr(dist::kShardingsAttr);
  }
  mlir::Operation *current = nullptr;
};

/// Returns the mesh of a module that has functions; null after an error.
dist::MeshOp meshOfFunctions(mlir::ModuleOp module);

/// Returns the layout of optimizer state of `type` whose parameter has type `param` and layout
/// `layout`: state of another shape is whole on every rank.
Layout stateLayout(mlir::Type type, mlir::Type param, const Layout &layout);

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
