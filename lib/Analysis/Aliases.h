//===- Aliases.h - Which values share bytes -------------------------------===//
#ifndef SHALE_ANALYSIS_ALIASES_H
#define SHALE_ANALYSIS_ALIASES_H

#include "dialects/nn/NN.h"

namespace shale::nn {
class ConstantOp;
}

namespace shale {

/// Returns the constant that defines `value` if all its elements are equal, else null. Kernels
/// compute such a constant instead of loading it.
nn::ConstantOp splatConstant(mlir::Value value);

/// Returns the operand whose buffer result `index` may reuse, or null. A kernel may
/// run in place on it: element i of the result depends on no other element of the
/// operand, or the cluster declares the alias.
mlir::OpOperand *aliasedOperand(mlir::Operation *op, unsigned index);

/// Returns the value whose bytes `value` refers to, looking through any number of views.
mlir::Value viewed(mlir::Value value);

/// Return the first and the last op of the block that read `value` or a view of it, or null if
/// there is none. A view without readers counts as a reader.
mlir::Operation *firstReader(mlir::Value value);
mlir::Operation *lastReader(mlir::Value value);

/// Returns the first op in the block of `op` that uses one of its results, or null.
mlir::Operation *firstUser(mlir::Operation *op);

} // namespace shale

#endif // SHALE_ANALYSIS_ALIASES_H
