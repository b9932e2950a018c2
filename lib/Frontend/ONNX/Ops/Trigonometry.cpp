//===- Trigonometry.cpp - Trigonometric functions in simpler ops ----------===//
//
// atan(x) = pi / 2 - atan(1 / x) of x > 1, and 2 atan(x / (1 + sqrt(1 + x^2))) of others, until the
// argument is so small that few terms of the series are enough. Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions, 4.4.42, and 4.4.34 for the sum of equal arcs.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The number of halvings, after which the argument is at most tan(pi / 32) = 0.099, and the terms
/// of the series: the first one that is left out is below 1e-17.
static constexpr int kHalvings = 3, kTerms = 8;

static Value divided(Node &node, Value a, Value b) { return node.binary<nn::DivOp>(a, b); }

static Value selected(Node &node, Value condition, Value a, Value b) {
  return condition && a && b ? node.create<nn::SelectOp>(a.getType(), condition, a, b) : Value();
}

/// The function of x in [-1, 1].
static Value arcTangentOfSmall(Node &node, Value x) {
  auto number = [&](double value) { return node.constant(Node::type(x), value); };
  Value square;
  for (int i = 0; i < kHalvings && x; ++i) {
    square = node.mul(x, x);
    Value root = square ? node.sqrt(node.add(number(1), square)) : Value();
    x = root ? divided(node, x, node.add(number(1), root)) : Value();
  }
  square = x ? node.mul(x, x) : Value();
  Value sum = square ? number(0) : Value();
  for (int term = kTerms; term-- > 0 && sum;)
    sum = node.add(number((term % 2 ? -1.0 : 1.0) / (2 * term + 1)), node.mul(square, sum));
  return sum ? node.mul(node.mul(number(1 << kHalvings), x), sum) : Value();
}

/// The branch that is not taken must be finite, or its gradient is NaN.
static Value arcTangent(Node &node, Value x) {
  if (!x)
    return {};
  auto number = [&](double value) { return node.constant(Node::type(x), value); };
  Value isLarge = node.binary(node.unary<nn::AbsOp>(x), number(1), nn::Predicate::GT);
  Value large = selected(node, isLarge, x, number(1));
  Value inverse = large ? divided(node, number(1), large) : Value();
  Value arc = arcTangentOfSmall(node, selected(node, isLarge, inverse, x));
  Value isPositive = node.binary(x, number(0), nn::Predicate::GT);
  Value quarter = selected(node, isPositive, number(M_PI_2), number(-M_PI_2));
  return arc ? selected(node, isLarge, node.sub(quarter, arc), arc) : Value();
}

static LogicalResult importAtan(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  node.set(0, arcTangent(node, node.input(0)));
  return success();
}

/// Whether a number is negative or -0.
static Value hasMinus(Node &node, Value x) {
  Value zero = node.constant(Node::type(x), 0);
  Value inverse = divided(node, node.constant(Node::type(x), 1), x);
  Value isBelow = node.binary(x, zero, nn::Predicate::LT);
  Value isMinusZero = inverse ? node.binary(inverse, zero, nn::Predicate::LT) : Value();
  return node.binary<nn::OrOp>(isBelow, isMinusZero);
}

/// The arc of the smaller operand's quotient by the larger one, from the axis of the larger one.
/// Both are 0 or infinite only at points where the quotient is set, without a gradient.
Value onnx::arcTangent2(Node &node, Value y, Value x) {
  SmallVector<int64_t> shape;
  if (failed(node.broadcastShape({y, x}, shape)))
    return {};
  y = node.broadcast(y, shape), x = node.broadcast(x, shape);
  if (!y || !x)
    return {};
  auto number = [&](double value) { return node.constant(Node::type(x), value); };
  Value isSteep =
      node.binary(node.unary<nn::AbsOp>(y), node.unary<nn::AbsOp>(x), nn::Predicate::GT);
  Value small = selected(node, isSteep, x, y), large = selected(node, isSteep, y, x);
  Value minusY = hasMinus(node, y), minusX = hasMinus(node, x);
  if (!small || !large || !minusY || !minusX)
    return {};
  Value isZero = node.binary(large, number(0), nn::Predicate::EQ);
  Value isInfinite = node.binary(node.unary<nn::AbsOp>(small), number(HUGE_VAL), nn::Predicate::EQ);
  auto one = [&](Value minus) { return selected(node, minus, number(-1), number(1)); };
  Value quotient = divided(
      node, selected(node, isInfinite, one(minusY), selected(node, isZero, number(0), small)),
      selected(node, isInfinite, one(minusX), selected(node, isZero, number(1), large)));
  Value arc = quotient ? arcTangentOfSmall(node, quotient) : Value();
  Value quarter = selected(node, minusY, number(-M_PI_2), number(M_PI_2));
  Value half = selected(node, minusY, number(-M_PI), number(M_PI));
  return selected(node, isSteep, node.sub(quarter, arc),
                  node.add(arc, selected(node, minusX, half, number(0))));
}

/// asin(x) = 2 atan(x / (1 + sqrt(1 - x^2))), acos(x) = 2 atan(sqrt((1 - x) / (1 + x))): neither
/// subtracts nearly equal numbers. Their gradients at 1 and -1 are not finite, as PyTorch's.
template <bool isCosine> static LogicalResult importArc(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0), one = node.constant(Node::type(x), 1);
  Value above = node.add(one, x), below = node.sub(one, x);
  Value tangent = isCosine ? node.sqrt(divided(node, below, above))
                           : divided(node, x, node.add(one, node.sqrt(node.mul(below, above))));
  Value half = arcTangent(node, tangent);
  node.set(0, half ? node.mul(node.constant(Node::type(x), 2), half) : Value());
  return success();
}

static LogicalResult importTan(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  node.set(0, divided(node, node.unary<nn::SinOp>(x), node.unary<nn::CosOp>(x)));
  return success();
}

/// cosh(x) = 1 + 2 sinh(x/2)^2, which overflows late and has the derivative's digits near 0, with
/// sinh(z) = ((e^z - 1) - (e^-z - 1)) / 2. sinh(x) = tanh(x) cosh(x), which subtracts nothing.
template <bool isCosine> static LogicalResult importHyperbolic(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0), half = node.constant(Node::type(x), 0.5);
  Value up = node.unary<nn::Expm1Op>(node.mul(half, x));
  Value down = node.unary<nn::Expm1Op>(node.unary<nn::NegOp>(node.mul(half, x)));
  Value sine = node.mul(half, node.sub(up, down));
  Value square = node.mul(node.mul(node.constant(Node::type(x), 2), sine), sine);
  Value cosine = node.add(node.constant(Node::type(x), 1), square);
  node.set(0, isCosine ? cosine : node.mul(node.unary<nn::TanhOp>(x), cosine));
  return success();
}

void onnx::registerTrigonometryOps(HandlerRegistry &r) {
  r.add("", "Tan", 7, importTan);
  r.add("", "Sinh", 9, importHyperbolic</*isCosine=*/false>);
  r.add("", "Cosh", 9, importHyperbolic</*isCosine=*/true>);
  r.add("", "Atan", 7, importAtan);
  r.add("", "Asin", 7, importArc</*isCosine=*/false>);
  r.add("", "Acos", 7, importArc</*isCosine=*/true>);
}
