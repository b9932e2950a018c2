//===- OpenValues.h - Values that follow splits across regions ------------===//
#ifndef SHALE_PASSES_SHARDING_OPENVALUES_H
#define SHALE_PASSES_SHARDING_OPENVALUES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace shale {
inline namespace sharding {

/// Values that may leave a region in any layout: all regions can agree on one.
using OpenValues = llvm::DenseSet<mlir::Value>;

/// Returns the values that are computed from parameters, buffers and constants alone, and the
/// values of the backward pass of which nothing is computed but gradients, without any other
/// activation: the gradients of such values, and their partial sums from several regions. An
/// example is the position bias of T5, which all blocks read.
OpenValues openValuesOf(mlir::func::FuncOp function);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_OPENVALUES_H
