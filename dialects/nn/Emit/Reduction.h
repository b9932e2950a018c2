//===- Reduction.h - How two elements are reduced to one ------------------===//
#ifndef SHALE_NN_EMIT_REDUCTION_H
#define SHALE_NN_EMIT_REDUCTION_H

#include "dialects/nn/NN.h"

namespace shale::nn {

/// Builds the identity element of the reduction, of a scalar or vector type.
mlir::Value identityOf(mlir::OpBuilder &builder, mlir::Location loc, ReduceKind kind,
                       mlir::Type type);

/// Reduces two scalars or vectors. max and min give NaN if either is NaN.
mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc, ReduceKind kind, mlir::Value lhs,
                    mlir::Value rhs);

} // namespace shale::nn

#endif // SHALE_NN_EMIT_REDUCTION_H
