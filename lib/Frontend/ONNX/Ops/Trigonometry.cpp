//===- Trigonometry.cpp - Trigonometric functions in simpler ops ----------===//
//
// atan(x) = pi / 2 - atan(1 / x) of x > 1, and 2 atan(x / (1 + sqrt(1 + x^2))) of others, until the
// argument is so small that few terms of the series are enough. Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions, 4.4.42, and 4.4.34 for the sum of equal arcs.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The number of halvings, after which the argument is at most tan(pi / 32) = 0.099, and the terms
/// of the series: the first one that is left out is below 1e-17.
static constexpr int kHalvings = 3, kTerms = 8;

/// The function of x in [-1, 1].
static Value arcTangentOfSmall(Node &node, Value x) {
  for (int i = 0; i < kHalvings; ++i)
    x = node.div(x, node.add(1, node.sqrt(node.add(1, node.mul(x, x)))));
  Value square = node.mul(x, x), sum = node.like(square, 0);
  for (int term = kTerms; term-- > 0;)
    sum = node.add((term % 2 ? -1.0 : 1.0) / (2 * term + 1), node.mul(square, sum));
  return node.mul(node.mul(1 << kHalvings, x), sum);
}

/// The branch that is not taken must be finite, or its gradient is NaN.
static Value arcTangent(Node &node, Value x) {
  Value isLarge = node.binary(node.abs(x), 1, nn::Predicate::GT);
  Value inverse = node.div(1, node.select(isLarge, x, 1));
  Value arc = arcTangentOfSmall(node, node.select(isLarge, inverse, x));
  Value isPositive = node.binary(x, 0, nn::Predicate::GT);
  Value quarter = node.select(isPositive, node.like(x, M_PI_2), -M_PI_2);
  return node.select(isLarge, node.sub(quarter, arc), arc);
}

static Value importAtan(Node &node) { return arcTangent(node, node.input(0)); }

/// Whether a number is negative or -0.
static Value hasMinus(Node &node, Value x) {
  Value inverse = node.div(1, x), isBelow = node.binary(x, 0, nn::Predicate::LT);
  return node.either(isBelow, node.binary(inverse, 0, nn::Predicate::LT));
}

/// The arc of the smaller operand's quotient by the larger one, from the axis of the larger one.
/// Both are 0 or infinite only at points where the quotient is set, without a gradient.
Value onnx::arcTangent2(Node &node, Value y, Value x) {
  SmallVector<int64_t> shape;
  if (failed(node.broadcastShape({y, x}, shape)))
    return {};
  y = node.broadcast(y, shape), x = node.broadcast(x, shape);
  Value isSteep = node.binary(node.abs(y), node.abs(x), nn::Predicate::GT);
  Value small = node.select(isSteep, x, y), large = node.select(isSteep, y, x);
  Value minusY = hasMinus(node, y), minusX = hasMinus(node, x);
  Value isZero = node.binary(large, 0, nn::Predicate::EQ);
  Value isInfinite = node.binary(node.abs(small), HUGE_VAL, nn::Predicate::EQ);
  auto sign = [&](Value minus, double size) {
    return node.select(minus, node.like(x, -size), size);
  };
  Value quotient =
      node.div(node.select(isInfinite, sign(minusY, 1), node.select(isZero, 0, small)),
               node.select(isInfinite, sign(minusX, 1), node.select(isZero, 1, large)));
  Value arc = arcTangentOfSmall(node, quotient);
  Value quarter = sign(minusY, M_PI_2), half = sign(minusY, M_PI);
  return node.select(isSteep, node.sub(quarter, arc), node.add(arc, node.select(minusX, half, 0)));
}

/// asin(x) = 2 atan(x / (1 + sqrt(1 - x^2))), acos(x) = 2 atan(sqrt((1 - x) / (1 + x))): neither
/// subtracts nearly equal numbers. Their gradients at 1 and -1 are not finite, as PyTorch's.
template <bool isCosine> static Value importArc(Node &node) {
  Value x = node.input(0), above = node.add(1, x), below = node.sub(1, x);
  Value tangent = isCosine ? node.sqrt(node.div(below, above))
                           : node.div(x, node.add(1, node.sqrt(node.mul(below, above))));
  return node.mul(2, arcTangent(node, tangent));
}

static Value importTan(Node &node) {
  return node.div(node.sin(node.input(0)), node.cos(node.input(0)));
}

/// cosh(x) = 1 + 2 sinh(x/2)^2, which overflows late and has the derivative's digits near 0, with
/// sinh(z) = ((e^z - 1) - (e^-z - 1)) / 2. sinh(x) = tanh(x) cosh(x), which subtracts nothing.
template <bool isCosine> static Value importHyperbolic(Node &node) {
  Value x = node.input(0), up = node.expm1(node.mul(0.5, x));
  Value down = node.expm1(node.neg(node.mul(0.5, x)));
  Value sine = node.mul(0.5, node.sub(up, down));
  Value cosine = node.add(1, node.mul(node.mul(2, sine), sine));
  return isCosine ? cosine : node.mul(node.tanh(x), cosine);
}

void onnx::registerTrigonometryOps(HandlerRegistry &r) {
  r.add("", "Tan", 7, importTan, floats(1));
  r.add("", "Sinh", 9, importHyperbolic</*isCosine=*/false>, floats(1));
  r.add("", "Cosh", 9, importHyperbolic</*isCosine=*/true>, floats(1));
  r.add("", "Atan", 7, importAtan, floats(1));
  r.add("", "Asin", 7, importArc</*isCosine=*/false>, floats(1));
  r.add("", "Acos", 7, importArc</*isCosine=*/true>, floats(1));
}
