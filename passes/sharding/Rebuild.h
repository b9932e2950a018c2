//===- Rebuild.h - Attributes of ops that replace others ------------------===//
#ifndef SHALE_PASSES_SHARDING_REBUILD_H
#define SHALE_PASSES_SHARDING_REBUILD_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

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

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_REBUILD_H
