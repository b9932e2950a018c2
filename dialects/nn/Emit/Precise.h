//===- Precise.h - Functions that keep digits where others cancel -----------===//
#ifndef SHALE_NN_EMIT_PRECISE_H
#define SHALE_NN_EMIT_PRECISE_H

#include "mlir/IR/Builders.h"

namespace shale::nn {

// Each function takes a scalar or a vector. In f32 it emits arithmetic, math.exp, math.log and
// math.fma, for which every target has code. In f64 it emits one op of math, which the CPU target
// computes element by element.

/// Emits exp(x) - 1. In f32 errors are below 2 units in the last place.
mlir::Value expm1(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// Emits log(1 + x). In f32 errors are below 3 units in the last place.
mlir::Value log1p(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// Emits 1 - erf(x). In f32 relative errors are below 1e-6 where the result is normal.
mlir::Value erfc(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// Emits exp(x^2) (1 - erf(x)), infinity where it overflows. Relative errors are below 1e-6 in f32,
/// and below 1e-12 in f64.
mlir::Value erfcx(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// Emits sin(x) and cos(x). In f32 errors are below 2 units in the last place for |x| up to 1e15;
/// above, and for infinity, the result is NaN.
mlir::Value sin(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
mlir::Value cos(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

} // namespace shale::nn

#endif // SHALE_NN_EMIT_PRECISE_H
