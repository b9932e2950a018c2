//===- Real.h - Formulas in arith and math --------------------------------===//
#ifndef SHALE_NN_OPTIMIZERS_REAL_H
#define SHALE_NN_OPTIMIZERS_REAL_H

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <array>

namespace shale::nn {

/// A float scalar or vector under construction. Operators emit ops at the builder; each operation
/// rounds once.
class Real {
public:
  Real(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value)
      : builder(&builder), loc(loc), value(value) {}

  operator mlir::Value() const { return value; }
  /// Returns a constant of this value's type.
  Real constant(double number) const {
    return with(constantLike(*builder, loc, value.getType(), number));
  }

  friend Real operator+(Real x, Real y) { return x.make<mlir::arith::AddFOp>(y); }
  friend Real operator-(Real x, Real y) { return x.make<mlir::arith::SubFOp>(y); }
  friend Real operator*(Real x, Real y) { return x.make<mlir::arith::MulFOp>(y); }
  friend Real operator/(Real x, Real y) { return x.make<mlir::arith::DivFOp>(y); }
  friend Real operator-(double x, Real y) { return y.constant(x) - y; }
  friend Real sqrt(Real x) {
    return x.with(mlir::math::SqrtOp::create(*x.builder, x.loc, x.value));
  }
  friend Real max(Real x, Real y) { return x.make<mlir::arith::MaximumFOp>(y); }
  /// Returns 1, 0 or -1; NaN for NaN.
  friend Real sign(Real x) {
    Real zero = x.constant(0);
    auto is = [&](mlir::arith::CmpFPredicate predicate) {
      return mlir::arith::CmpFOp::create(*x.builder, x.loc, predicate, x.value, zero.value);
    };
    auto select = [&](mlir::Value condition, Real yes, Real no) {
      return x.with(
          mlir::arith::SelectOp::create(*x.builder, x.loc, condition, yes.value, no.value));
    };
    // A value that is neither above nor below zero is zero or NaN: it is returned as it is.
    Real rest = select(is(mlir::arith::CmpFPredicate::OLT), x.constant(-1), x);
    return select(is(mlir::arith::CmpFPredicate::OGT), x.constant(1), rest);
  }

private:
  Real with(mlir::Value other) const { return Real(*builder, loc, other); }
  template <typename Op> Real make(Real y) const {
    return with(Op::create(*builder, loc, value, y.value));
  }

  mlir::OpBuilder *builder;
  mlir::Location loc;
  mlir::Value value;
};

/// Returns `values`, ready for formulas.
template <typename... Values>
std::array<Real, sizeof...(Values)> reals(const UpdateElement &at, Values... values) {
  return {Real(at.builder, at.loc, values)...};
}

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_REAL_H
