//===- Regions.h - What stays in f32 around loss and gradients ------------===//
#ifndef SHALE_PASSES_PRECISION_REGIONS_H
#define SHALE_PASSES_PRECISION_REGIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

using OpSet = llvm::DenseSet<mlir::Operation *>;

/// Ops of the forward pass between the last product (norm, attention, table) and
/// a metric: elementwise ops, reductions and data movement.
OpSet lossRegion(mlir::func::FuncOp function);

/// Ops that do nothing but make gradients of parameters: each use of their
/// result is an update, the norm, a sum over micro-batches, or such an op that only
/// moves or combines elements. A product among them need not round its sums.
OpSet gradientRegion(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_PASSES_PRECISION_REGIONS_H
