//===- Saturate.h - Values beyond the range of a 16-bit float -------------===//
#ifndef SHALE_PASSES_PRECISION_SATURATE_H
#define SHALE_PASSES_PRECISION_SATURATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

/// Returns a finite number that is beyond the range of a float type as the type's largest finite
/// number of its sign, other numbers as they are.
double clampedTo(mlir::Type element, double value);

/// Returns the constants of f32 with finite elements beyond the range of `element`, such as the
/// fill of a mask, and what elementwise ops and movements of the forward pass compute from them.
/// Gradients are not among them: where they overflow, the loss scale is too large.
llvm::DenseSet<mlir::Value> valuesBeyond(mlir::func::FuncOp function, mlir::Type element);

/// Builds the value with finite elements clamped to the range of `element`, with the scope and
/// phase of `like`. Infinities and NaN stay.
mlir::Value saturate(mlir::OpBuilder &builder, mlir::Value value, mlir::Type element,
                     mlir::Operation *like);

} // namespace shale

#endif // SHALE_PASSES_PRECISION_SATURATE_H
