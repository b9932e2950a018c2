//===- Float8.h - 8-bit floats --------------------------------------------===//
#ifndef SHALE_INTERFACES_FLOAT8_H
#define SHALE_INTERFACES_FLOAT8_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace shale {

/// Whether `element` is an 8-bit float type that matmuls take: e4m3 without infinity, or e5m2.
inline bool is8BitFloat(mlir::Type element) {
  return llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(element);
}

/// Rounds a scalar or vector of f32 to the 8-bit float type `narrow`, to nearest even, by
/// arith.truncf. Numbers beyond its range, and infinities, become its largest finite number; NaN
/// stays NaN.
mlir::Value narrowTo8Bits(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                          mlir::Type narrow);

/// Returns the value of which the operand of an arith.truncf to an 8-bit float type is the nearest
/// in the range of the type, as narrowTo8Bits emits it; the operand itself if there is none.
mlir::Value withoutLimits(mlir::Value operand, mlir::Type narrow);

/// Rounds numbers in the range of `narrow`, or NaN, by integer arithmetic.
mlir::Value narrowTo8BitsByIntegers(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                                    mlir::Type narrow);

} // namespace shale

#endif // SHALE_INTERFACES_FLOAT8_H
