//===- Numeric.h - In which type an op takes and gives floats -------------===//
#ifndef SHALE_INTERFACES_NUMERIC_H
#define SHALE_INTERFACES_NUMERIC_H

#include "mlir/IR/BuiltinTypes.h"

namespace shale {

/// What an op says of a float operand or result (the `Precision` interface).
enum class Numeric {
  Compute,     ///< the compute type: that of the parameters at use
  Full,        ///< f32: statistics, losses, scalars of the optimizer
  Follows,     ///< that of the other operands that follow: the compute type if one of them has it
  Accumulates, ///< result: a sum, kept in f32 where its users want it so, else rounded once; operand: wants it so
  Any          ///< operand: taken as it comes, widened inside
};

/// Whether `element` is a float of 16 bits.
inline bool isHalf(mlir::Type element) { return element.isBF16() || element.isF16(); }

/// The type in which sums of `element` are held: f32 for a half type. Takes
/// tensors, too, whose shape stays.
inline mlir::Type accumulatorType(mlir::Type type) {
  if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type))
    return tensor.clone(accumulatorType(tensor.getElementType()));
  return isHalf(type) ? mlir::Float32Type::get(type.getContext()) : type;
}

} // namespace shale

#endif // SHALE_INTERFACES_NUMERIC_H
