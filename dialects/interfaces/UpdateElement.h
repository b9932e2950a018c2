//===- UpdateElement.h - Operands of an update's formula ------------------===//
#ifndef SHALE_INTERFACES_UPDATEELEMENT_H
#define SHALE_INTERFACES_UPDATEELEMENT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/ValueRange.h"

namespace shale {

/// One element of an optimizer's update, or a vector of elements: floats of one type, f32 or wider.
struct UpdateElement {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  /// For each operand of the op: the element of the parameter, the gradient, which is scaled, or a
  /// state, or the scalar of the formula, multiplied by the factor of the parameter. Null for the
  /// others. The op's Adaptor names them.
  mlir::ValueRange operands;
};

} // namespace shale

#endif // SHALE_INTERFACES_UPDATEELEMENT_H
