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
  /// The parameter, then its state.
  mlir::ValueRange olds;
  /// The gradient, scaled.
  mlir::Value gradient;
  /// The factor of the weight decay.
  mlir::Value decay;
  /// The scalars of the formula, in the order of the op's operands.
  mlir::ValueRange hypers;
};

} // namespace shale

#endif // SHALE_INTERFACES_UPDATEELEMENT_H
