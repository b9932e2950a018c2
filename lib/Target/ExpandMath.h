//===- ExpandMath.h - Polynomials in place of math functions --------------===//
#ifndef SHALE_TARGET_EXPANDMATH_H
#define SHALE_TARGET_EXPANDMATH_H

#include "mlir/IR/Operation.h"

namespace shale {

/// Replaces math functions by polynomials of arith ops and fma, those of constants as well: a
/// kernel that computes a value twice must get the same bits, and MLIR would fold a constant's
/// function with the compiler's libm.
mlir::LogicalResult expandMath(mlir::Operation *root);

} // namespace shale

#endif // SHALE_TARGET_EXPANDMATH_H
