//===- Regions.h - Ops in f32 around loss and gradients -------------------===//
#ifndef SHALE_PASSES_PRECISION_REGIONS_H
#define SHALE_PASSES_PRECISION_REGIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

using OpSet = llvm::DenseSet<mlir::Operation *>;

/// Returns the ops of the forward pass between the last matmul (or norm,
/// attention, table lookup) and a metric: elementwise ops, reductions and data
/// movement.
OpSet lossRegion(mlir::func::FuncOp function);

/// Returns the ops that only compute gradients of parameters: each use of their
/// result is an update, the norm, a sum over micro-batches, or another such op that
/// moves or combines elements. A matmul among them need not round its sums.
OpSet gradientRegion(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_PASSES_PRECISION_REGIONS_H
