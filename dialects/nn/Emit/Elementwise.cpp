//===- Elementwise.cpp - Elementwise ops in arith and math ----------------===//
//
// One body serves scalars and vectors: arith and math ops take both.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/interfaces/Float8.h"
#include "dialects/nn/Emit/Precise.h"
#include "dialects/nn/Gelu.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Quantize.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

/// `F` for floats, `I` for integers.
template <typename F, typename I> Value floatOrInt(OpBuilder &b, Location loc, ValueRange args) {
  if (isFloat(args[0]))
    return F::create(b, loc, args[0], args[1]);
  return I::create(b, loc, args[0], args[1]);
}

Value constant(OpBuilder &b, Location loc, Value like, double value) {
  return constantLike(b, loc, like.getType(), value);
}

Value sigmoid(OpBuilder &b, Location loc, Value x) {
  Value one = constant(b, loc, x, 1);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, e));
}

/// Integer quotient or remainder that is 0 where the divisor is, and does not
/// trap on the most negative number divided by -1.
template <typename Op>
Value guarded(OpBuilder &b, Location loc, Value lhs, Value rhs, bool quotient) {
  Value zero = constant(b, loc, rhs, 0), one = constant(b, loc, rhs, 1);
  Value isZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs, zero);
  Value isMinus =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs, constant(b, loc, rhs, -1));
  Value unsafe = arith::OrIOp::create(b, loc, isZero, isMinus);
  Value safe = Op::create(b, loc, lhs, arith::SelectOp::create(b, loc, unsafe, one, rhs));
  Value minus = quotient ? Value(arith::SubIOp::create(b, loc, zero, lhs)) : zero;
  Value special = arith::SelectOp::create(b, loc, isMinus, minus, zero);
  return arith::SelectOp::create(b, loc, unsafe, special, safe);
}
} // namespace

#define EMIT(OP) Value OP::emitElement(OpBuilder &b, Location loc, ValueRange args)

EMIT(AddOp) { return floatOrInt<arith::AddFOp, arith::AddIOp>(b, loc, args); }
EMIT(SubOp) { return floatOrInt<arith::SubFOp, arith::SubIOp>(b, loc, args); }
EMIT(MulOp) { return floatOrInt<arith::MulFOp, arith::MulIOp>(b, loc, args); }
EMIT(MaxOp) { return floatOrInt<arith::MaximumFOp, arith::MaxSIOp>(b, loc, args); }
EMIT(MinOp) { return floatOrInt<arith::MinimumFOp, arith::MinSIOp>(b, loc, args); }
EMIT(DivOp) {
  if (isFloat(args[0]))
    return arith::DivFOp::create(b, loc, args[0], args[1]);
  return guarded<arith::DivSIOp>(b, loc, args[0], args[1], /*quotient=*/true);
}
EMIT(RemOp) {
  if (isFloat(args[0]))
    return arith::RemFOp::create(b, loc, args[0], args[1]);
  return guarded<arith::RemSIOp>(b, loc, args[0], args[1], /*quotient=*/false);
}
EMIT(PowOp) {
  // pow with a constant small integer exponent is common (x^2, x^3) and exact
  // enough as products; the general case uses the library.
  if (auto splatted = getRhs().getDefiningOp<ConstantOp>())
    if (auto dense = dyn_cast<DenseElementsAttr>(splatted.getValue()); dense && dense.isSplat()) {
      double exponent = dense.getSplatValue<APFloat>().convertToDouble();
      if (exponent == 1)
        return args[0];
      if (exponent == 2 || exponent == 3) {
        Value square = arith::MulFOp::create(b, loc, args[0], args[0]);
        return exponent == 2 ? square : Value(arith::MulFOp::create(b, loc, square, args[0]));
      }
      if (exponent == 0.5)
        return math::SqrtOp::create(b, loc, args[0]);
    }
  return math::PowFOp::create(b, loc, args[0], args[1]);
}
EMIT(XLogYOp) {
  Value x = args[0], y = args[1];
  Value product = arith::MulFOp::create(b, loc, x, math::LogOp::create(b, loc, y));
  Value zero = constant(b, loc, x, 0);
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, zero);
  Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, y, y);
  return arith::SelectOp::create(b, loc, arith::AndIOp::create(b, loc, isZero, isNumber), zero,
                                 product);
}
EMIT(AndOp) { return arith::AndIOp::create(b, loc, args[0], args[1]); }
EMIT(OrOp) { return arith::OrIOp::create(b, loc, args[0], args[1]); }
EMIT(XorOp) { return arith::XOrIOp::create(b, loc, args[0], args[1]); }
EMIT(NotOp) { return arith::XOrIOp::create(b, loc, args[0], constant(b, loc, args[0], 1)); }
EMIT(NegOp) {
  if (isFloat(args[0]))
    return arith::NegFOp::create(b, loc, args[0]);
  return arith::SubIOp::create(b, loc, constant(b, loc, args[0], 0), args[0]);
}
EMIT(AbsOp) {
  if (isFloat(args[0]))
    return math::AbsFOp::create(b, loc, args[0]);
  return math::AbsIOp::create(b, loc, args[0]);
}
EMIT(SignOp) {
  Value zero = constant(b, loc, args[0], 0), one = constant(b, loc, args[0], 1),
        minus = constant(b, loc, args[0], -1);
  if (!isFloat(args[0])) {
    Value positive = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, args[0], zero);
    Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, args[0], zero);
    Value sign = arith::SelectOp::create(b, loc, negative, minus, zero);
    return arith::SelectOp::create(b, loc, positive, one, sign);
  }
  // Zero and NaN stay what they are.
  Value positive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, args[0], zero);
  Value negative = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, args[0], zero);
  Value sign = arith::SelectOp::create(b, loc, negative, minus, args[0]);
  return arith::SelectOp::create(b, loc, positive, one, sign);
}
EMIT(StopGradientOp) { return args[0]; }
EMIT(RunningStatisticOp) { return args[0]; }
EMIT(FloorOp) { return math::FloorOp::create(b, loc, args[0]); }
EMIT(CeilOp) { return math::CeilOp::create(b, loc, args[0]); }
EMIT(ExpOp) { return math::ExpOp::create(b, loc, args[0]); }
EMIT(Expm1Op) { return expm1(b, loc, args[0]); }
EMIT(LogOp) { return math::LogOp::create(b, loc, args[0]); }
EMIT(Log1pOp) { return log1p(b, loc, args[0]); }
EMIT(SqrtOp) { return math::SqrtOp::create(b, loc, args[0]); }
EMIT(RsqrtOp) {
  return arith::DivFOp::create(b, loc, constant(b, loc, args[0], 1),
                               math::SqrtOp::create(b, loc, args[0]));
}
EMIT(TanhOp) { return math::TanhOp::create(b, loc, args[0]); }
EMIT(ErfOp) { return math::ErfOp::create(b, loc, args[0]); }
EMIT(ErfcOp) { return erfc(b, loc, args[0]); }
EMIT(ErfcxOp) { return erfcx(b, loc, args[0]); }
EMIT(SigmoidOp) { return sigmoid(b, loc, args[0]); }
EMIT(SinOp) { return sin(b, loc, args[0]); }
EMIT(CosOp) { return cos(b, loc, args[0]); }
EMIT(SiluOp) { return arith::MulFOp::create(b, loc, args[0], sigmoid(b, loc, args[0])); }

EMIT(GeluOp) {
  Value x = args[0];
  Value half = constant(b, loc, x, 0.5), one = constant(b, loc, x, 1), inner;
  if (getApproximate()) {
    Value cube = arith::MulFOp::create(b, loc, arith::MulFOp::create(b, loc, x, x), x);
    cube = arith::MulFOp::create(b, loc, cube, constant(b, loc, x, kGeluTanhCubic));
    Value sum = arith::AddFOp::create(b, loc, x, cube);
    inner = math::TanhOp::create(
        b, loc, arith::MulFOp::create(b, loc, sum, constant(b, loc, x, kGeluTanhScale)));
  } else {
    inner = math::ErfOp::create(
        b, loc, arith::MulFOp::create(b, loc, x, constant(b, loc, x, 0.7071067811865476)));
  }
  Value halfX = arith::MulFOp::create(b, loc, x, half);
  return arith::MulFOp::create(b, loc, halfX, arith::AddFOp::create(b, loc, one, inner));
}

EMIT(IsNanOp) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, args[0], args[0]); }

EMIT(CompareOp) {
  if (isFloat(args[0])) {
    static constexpr arith::CmpFPredicate table[] = {
        arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE, arith::CmpFPredicate::OLT,
        arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return arith::CmpFOp::create(b, loc, table[int(getPredicate())], args[0], args[1]);
  }
  static constexpr arith::CmpIPredicate table[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::slt,
      arith::CmpIPredicate::sle, arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  static constexpr arith::CmpIPredicate bits[] = {
      arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::ult,
      arith::CmpIPredicate::ule, arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  bool isBool = getElementTypeOrSelf(args[0].getType()).isInteger(1);
  return arith::CmpIOp::create(b, loc, (isBool ? bits : table)[int(getPredicate())], args[0],
                               args[1]);
}

EMIT(SelectOp) { return arith::SelectOp::create(b, loc, args[0], args[1], args[2]); }

EMIT(QuantizeOp) {
  return narrowTo8Bits(b, loc, args[0], getElementTypeOrSelf(getResult().getType()));
}

EMIT(BitcastOp) {
  Type to = getResult().getType().getElementType();
  return arith::BitcastOp::create(b, loc, likeShape(args[0], to), args[0]);
}

EMIT(CastOp) {
  Value x = args[0];
  Type from = getElementTypeOrSelf(x.getType());
  Type to = cast<RankedTensorType>(getResult().getType()).getElementType();
  if (from == to)
    return x;
  if (is16BitFloat(from)) {
    x = widen16Bits(b, loc, x);
    from = b.getF32Type();
    if (from == to)
      return x;
  }
  Type narrow = is16BitFloat(to) ? to : Type();
  if (narrow && from.isF32())
    return narrowTo16Bits(b, loc, x, narrow);
  if (narrow) // integers, booleans and f64 are converted via f32
    to = b.getF32Type();
  Type type = to;
  if (auto wide = dyn_cast<VectorType>(x.getType()))
    type = wide.clone(to);
  if (isa<FloatType>(to)) {
    Value made;
    if (from.isInteger(1))
      made = arith::UIToFPOp::create(b, loc, type, x);
    else if (from.isInteger())
      made = arith::SIToFPOp::create(b, loc, type, x);
    else if (to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth())
      made = arith::ExtFOp::create(b, loc, type, x);
    else
      made = arith::TruncFOp::create(b, loc, type, x);
    return narrow ? narrowTo16Bits(b, loc, made, narrow) : made;
  }
  Value zero = constant(b, loc, x, 0);
  if (to.isInteger(1)) {
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, x, zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, x, zero);
  }
  if (!isa<FloatType>(from)) {
    if (from.isInteger(1))
      return arith::ExtUIOp::create(b, loc, type, x);
    if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
      return arith::ExtSIOp::create(b, loc, type, x);
    return arith::TruncIOp::create(b, loc, type, x);
  }
  // Saturates: beyond the range the conversion is poison, so it converts 0
  // there and the bound is chosen instead. The bounds are powers of two.
  unsigned width = to.getIntOrFloatBitWidth();
  double bound = width == 64 ? 0x1p63 : 0x1p31;
  Value high =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, x, constant(b, loc, x, bound));
  Value low =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, constant(b, loc, x, -bound));
  Value inside = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, x, x);
  Value outside = arith::OrIOp::create(b, loc, high, low);
  inside = arith::AndIOp::create(
      b, loc, inside, arith::XOrIOp::create(b, loc, outside, constant(b, loc, outside, 1)));
  Value converted =
      arith::FPToSIOp::create(b, loc, type, arith::SelectOp::create(b, loc, inside, x, zero));
  auto limit = [&](const APInt &value) -> Value {
    TypedAttr scalar = b.getIntegerAttr(to, value);
    if (auto wide = dyn_cast<VectorType>(type))
      scalar = DenseElementsAttr::get(wide, Attribute(scalar));
    return arith::ConstantOp::create(b, loc, scalar);
  };
  converted =
      arith::SelectOp::create(b, loc, high, limit(APInt::getSignedMaxValue(width)), converted);
  return arith::SelectOp::create(b, loc, low, limit(APInt::getSignedMinValue(width)), converted);
}
