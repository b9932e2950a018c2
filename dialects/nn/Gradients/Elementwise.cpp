//===- Elementwise.cpp - Gradients of elementwise ops ---------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Gelu.h"
#include "dialects/nn/Gradients/Build.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"

using namespace mlir;
using namespace shale::nn;

static constexpr double kPi = 3.14159265358979323846;

// The gradient of a unary op: `g` is the result's gradient, `x` the operand,
// `y` the result.
#define SHALE_UNARY_GRADIENT(OP, EXPRESSION)                                                       \
  LogicalResult OP::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,                 \
                                  ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {   \
    Build b{builder, getLoc()};                                                                    \
    Value g = resultGrads[0], x = getInput(), y = getResult();                                     \
    (void)b, (void)g, (void)x, (void)y;                                                            \
    operandGrads[0] = EXPRESSION;                                                                  \
    return success();                                                                              \
  }

/// exp(-x^2) times a factor.
static Value bell(const Build &b, Value x, double factor) {
  return b.scaled(b.exp(b.neg(b.mul(x, x))), factor);
}

static Value oneMinusSquare(const Build &b, Value y) {
  return b.sub(b.constant(y, 1), b.mul(y, y));
}

// silu' = s (1 + x (1 - s)) with s = sigmoid(x)
static Value siluSlope(const Build &b, Value x) {
  Value s = b.unary<SigmoidOp>(x), one = b.constant(x, 1);
  return b.mul(s, b.add(one, b.mul(x, b.sub(one, s))));
}

SHALE_UNARY_GRADIENT(NegOp, b.neg(g))
SHALE_UNARY_GRADIENT(AbsOp, b.mul(g, b.unary<SignOp>(x)))
SHALE_UNARY_GRADIENT(SignOp, Value())
SHALE_UNARY_GRADIENT(StopGradientOp, Value())
SHALE_UNARY_GRADIENT(FloorOp, Value())
SHALE_UNARY_GRADIENT(CeilOp, Value())
SHALE_UNARY_GRADIENT(ExpOp, b.mul(g, y))
// Not y + 1, which has no digits left where exp(x) is small.
SHALE_UNARY_GRADIENT(Expm1Op, b.mul(g, b.exp(x)))
SHALE_UNARY_GRADIENT(LogOp, b.div(g, x))
SHALE_UNARY_GRADIENT(Log1pOp, b.div(g, b.shifted(x, 1)))
SHALE_UNARY_GRADIENT(SqrtOp, b.div(g, b.scaled(y, 2)))
SHALE_UNARY_GRADIENT(RsqrtOp, b.scaled(b.mul(g, b.mul(y, b.mul(y, y))), -0.5))
SHALE_UNARY_GRADIENT(TanhOp, b.mul(g, oneMinusSquare(b, y)))
SHALE_UNARY_GRADIENT(ErfOp, b.mul(g, bell(b, x, 2 / std::sqrt(kPi))))
SHALE_UNARY_GRADIENT(ErfcOp, b.mul(g, bell(b, x, -2 / std::sqrt(kPi))))
SHALE_UNARY_GRADIENT(ErfcxOp, b.mul(g, b.shifted(b.scaled(b.mul(x, y), 2), -2 / std::sqrt(kPi))))
SHALE_UNARY_GRADIENT(SigmoidOp, b.mul(g, b.mul(y, b.sub(b.constant(y, 1), y))))
SHALE_UNARY_GRADIENT(SinOp, b.mul(g, b.unary<CosOp>(x)))
SHALE_UNARY_GRADIENT(CosOp, b.neg(b.mul(g, b.unary<SinOp>(x))))
SHALE_UNARY_GRADIENT(SiluOp, b.mul(g, siluSlope(b, x)))

#undef SHALE_UNARY_GRADIENT

// x (1 + erf(x / sqrt 2)) / 2: (1 + erf) / 2 + x exp(-x^2 / 2) / sqrt(2 pi)
static Value geluSlopeErf(const Build &b, Value x) {
  Value erf = b.unary<ErfOp>(b.scaled(x, std::sqrt(0.5)));
  Value cumulative = b.scaled(b.shifted(erf, 1), 0.5);
  Value density = b.scaled(b.exp(b.scaled(b.mul(x, x), -0.5)), 1 / std::sqrt(2 * kPi));
  return b.add(cumulative, b.mul(x, density));
}

// With t = tanh(c (x + a x^3)):
// (1 + t) / 2 + x (1 - t^2) c (1 + 3 a x^2) / 2
static Value geluSlopeTanh(const Build &b, Value x) {
  const double c = kGeluTanhScale, a = kGeluTanhCubic;
  Value square = b.mul(x, x);
  Value inner = b.mul(x, b.shifted(b.scaled(square, c * a), c));
  Value t = b.unary<TanhOp>(inner);
  Value slope = b.shifted(b.scaled(square, 1.5 * c * a), 0.5 * c);
  return b.add(b.shifted(b.scaled(t, 0.5), 0.5), b.mul(b.mul(x, oneMinusSquare(b, t)), slope));
}

LogicalResult GeluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  operandGrads[0] = b.mul(resultGrads[0], getApproximate() ? geluSlopeTanh(b, getInput())
                                                           : geluSlopeErf(b, getInput()));
  return success();
}

LogicalResult AddOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                   SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = operandGrads[1] = resultGrads[0];
  return success();
}

LogicalResult SubOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = resultGrads[0];
  if (wanted[1])
    operandGrads[1] = Build{builder, getLoc()}.neg(resultGrads[0]);
  return success();
}

LogicalResult MulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  if (wanted[0])
    operandGrads[0] = b.mul(resultGrads[0], getRhs());
  if (wanted[1])
    operandGrads[1] = b.mul(resultGrads[0], getLhs());
  return success();
}

LogicalResult DivOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  Value quotient = b.div(resultGrads[0], getRhs());
  operandGrads[0] = quotient;
  if (wanted[1])
    operandGrads[1] = b.neg(b.mul(quotient, getResult()));
  return success();
}

// y = lhs - rhs trunc(lhs / rhs). The truncated quotient is constant almost everywhere.
LogicalResult RemOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  operandGrads[0] = resultGrads[0];
  if (wanted[1]) {
    Value quotient = b.div(b.sub(getLhs(), getResult()), getRhs());
    operandGrads[1] = b.neg(b.mul(resultGrads[0], quotient));
  }
  return success();
}

/// Returns the gradient of an operand of max or min, which is chosen where `wins`
/// holds. Where both operands are equal each gets half, as in PyTorch.
static Value chosenGradient(const Build &b, Value g, Value wins, Value equal) {
  Value half = b.scaled(g, 0.5);
  return b.select(equal, half, b.select(wins, g, b.constant(g, 0)));
}

template <typename OpT>
static void extremumGradient(OpT op, Predicate lhsWins, OpBuilder &builder, Value g,
                             ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, op.getLoc()};
  Value equal = b.compare(Predicate::EQ, op.getLhs(), op.getRhs());
  if (wanted[0])
    operandGrads[0] = chosenGradient(b, g, b.compare(lhsWins, op.getLhs(), op.getRhs()), equal);
  if (wanted[1])
    operandGrads[1] = chosenGradient(b, g, b.compare(lhsWins, op.getRhs(), op.getLhs()), equal);
}

LogicalResult MaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  extremumGradient(*this, Predicate::GT, builder, resultGrads[0], wanted, operandGrads);
  return success();
}

LogicalResult MinOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  extremumGradient(*this, Predicate::LT, builder, resultGrads[0], wanted, operandGrads);
  return success();
}

/// Whether a value is a constant without an element that is 0.
static bool isNeverZero(Value value) {
  DenseElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && isa<FloatType>(constant.getElementType()) &&
         llvm::none_of(constant.getValues<APFloat>(),
                       [](const APFloat &number) { return number.isZero(); });
}

// d(x^e)/dx = e x^(e - 1), and 0 where e is 0. d(x^e)/de = x^e log(x), and 0 where x is 0 and e is
// not negative. Both as in PyTorch (pow_backward_self, pow_backward_exponent).
LogicalResult PowOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  if (wanted[0]) {
    Value lower = b.binary<PowOp>(getLhs(), b.shifted(getRhs(), -1));
    Value zero = b.constant(lower, 0), slope = b.mul(resultGrads[0], b.mul(getRhs(), lower));
    operandGrads[0] = isNeverZero(getRhs())
                          ? slope
                          : b.select(b.compare(Predicate::EQ, getRhs(), zero), zero, slope);
  }
  if (wanted[1]) {
    Value zero = b.constant(getLhs(), 0);
    Value none = AndOp::create(builder, getLoc(), b.compare(Predicate::EQ, getLhs(), zero),
                               b.compare(Predicate::GE, getRhs(), zero));
    Value slope = b.mul(resultGrads[0], b.mul(getResult(), b.unary<LogOp>(getLhs())));
    operandGrads[1] = isNeverZero(getLhs()) ? slope : b.select(none, zero, slope);
  }
  return success();
}

// As in PyTorch: d/dx = log(y), and 0 where x is 0 and y is not positive. d/dy = x / y.
LogicalResult XLogYOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                     ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  Value g = resultGrads[0], x = getLhs(), y = getRhs(), zero = b.constant(x, 0);
  if (wanted[0]) {
    Value none = AndOp::create(builder, getLoc(), b.compare(Predicate::EQ, x, zero),
                               b.compare(Predicate::LE, y, zero));
    operandGrads[0] = b.select(none, zero, b.binary<XLogYOp>(g, y));
  }
  if (wanted[1])
    operandGrads[1] = b.div(b.mul(g, x), y);
  return success();
}

LogicalResult SelectOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  Value g = resultGrads[0], zero = b.constant(g, 0);
  if (wanted[1])
    operandGrads[1] = b.select(getCondition(), g, zero);
  if (wanted[2])
    operandGrads[2] = b.select(getCondition(), zero, g);
  return success();
}

LogicalResult CastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  Type element = Build::type(getInput()).getElementType();
  if (isa<FloatType>(element))
    operandGrads[0] = b.cast(resultGrads[0], element);
  return success();
}
