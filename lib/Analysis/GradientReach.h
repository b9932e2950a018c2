//===- GradientReach.h - Values that gradients reach ----------------------===//
#ifndef SHALE_ANALYSIS_GRADIENTREACH_H
#define SHALE_ANALYSIS_GRADIENTREACH_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

/// Returns the values of a block that gradients of `roots` reach. An op without a gradient counts
/// as passing one.
llvm::DenseSet<mlir::Value> reachedByGradients(mlir::Block &body,
                                               llvm::ArrayRef<mlir::Value> roots);

} // namespace shale

#endif // SHALE_ANALYSIS_GRADIENTREACH_H
