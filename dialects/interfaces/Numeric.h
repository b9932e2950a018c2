//===- Numeric.h - Types of the float operands and results of ops ---------===//
#ifndef SHALE_INTERFACES_NUMERIC_H
#define SHALE_INTERFACES_NUMERIC_H

#include "mlir/IR/BuiltinTypes.h"

namespace shale {

/// The type of a float operand or result (see the `PrecisionOpInterface` interface).
enum class Numeric {
  Compute,     ///< the compute type: that of the parameters at use
  Full,        ///< f32: statistics, losses, scalars of the optimizer
  Follows,     ///< the type of the other `Follows` operands: the compute type if one of them has it
  Accumulates, ///< result: a sum, kept in f32 if its users take f32, else rounded once; operand:
               ///< takes f32
  Any          ///< operand: taken in any float type, widened inside the op
};

/// Whether `element` is a 16-bit float type.
inline bool is16BitFloat(mlir::Type element) { return element.isBF16() || element.isF16(); }

/// Returns the type in which sums of `type` are held: f32 for 16-bit floats,
/// otherwise `type`. A tensor type keeps its shape.
inline mlir::Type accumulatorType(mlir::Type type) {
  if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type))
    return tensor.clone(accumulatorType(tensor.getElementType()));
  return is16BitFloat(type) ? mlir::Float32Type::get(type.getContext()) : type;
}

} // namespace shale

#endif // SHALE_INTERFACES_NUMERIC_H
