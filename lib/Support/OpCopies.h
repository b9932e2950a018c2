//===- OpCopies.h - Ops that are built in place of others -----------------===//
#ifndef SHALE_SUPPORT_OPCOPIES_H
#define SHALE_SUPPORT_OPCOPIES_H

#include "mlir/IR/Builders.h"

namespace shale {

/// Gives each op that a builder inserts the discardable attributes (phase, scope, policies) of
/// `current`, the op that it is built for, unless it has its own.
struct CopyAttributes : mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;
  mlir::Operation *current = nullptr;
};

/// Clones an op with other operands and other types of its results.
mlir::Operation *cloneAs(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                         mlir::TypeRange types);

} // namespace shale

#endif // SHALE_SUPPORT_OPCOPIES_H
