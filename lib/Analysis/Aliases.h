//===- Aliases.h - Which values share bytes -------------------------------===//
#ifndef SHALE_ANALYSIS_ALIASES_H
#define SHALE_ANALYSIS_ALIASES_H

#include "dialects/nn/NN.h"

namespace shale {

/// The constant that defines `value` if all its elements are equal (kernels compute it, nothing is loaded), or null.
nn::ConstantOp splatConstant(mlir::Value value);

/// The operand whose buffer result `index` may be given, or null. A kernel that
/// runs in place on it is right: element i of the result depends on no other
/// element of it, or the cluster says so.
mlir::OpOperand *aliasedOperand(mlir::Operation *op, unsigned index);

/// The value whose bytes `value` shows: through any number of views.
mlir::Value viewed(mlir::Value value);

/// The first and the last op of the block that read `value` or a view of it; null where none does. A view without readers
/// reads by itself.
mlir::Operation *firstReader(mlir::Value value);
mlir::Operation *lastReader(mlir::Value value);

/// The first op of the block of `op` that uses a result of it, or null.
mlir::Operation *firstUser(mlir::Operation *op);

} // namespace shale

#endif // SHALE_ANALYSIS_ALIASES_H
