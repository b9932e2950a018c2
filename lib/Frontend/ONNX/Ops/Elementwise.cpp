//===- Elementwise.cpp - Functions of each element ------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

template <typename OpT> static Value importBinary(Node &node) {
  return node.binary<OpT>(node.input(0), node.input(1));
}

template <typename OpT> static Value importUnary(Node &node) {
  return node.unary<OpT>(node.input(0));
}

/// Min, Max, Sum and Mean take any number of operands.
template <typename OpT, bool mean = false> static Value importVariadic(Node &node) {
  if (failed(node.require(node.numInputs())))
    return {};
  Value result = node.input(0);
  for (Value value : node.operands().drop_front())
    result = node.binary<OpT>(result, value);
  return mean ? node.div(result, node.numInputs()) : result;
}

Value onnx::scaled(Node &node, Value x, double factor) {
  return factor == 1 ? x : node.mul(x, factor);
}

Value onnx::rootOrZero(Node &node, Value sum) {
  if (!sum || !Node::hasFloats(sum))
    return node.sqrt(sum);
  Value zero = node.like(sum, 0), isZero = node.binary(sum, zero, nn::Predicate::EQ);
  return node.select(isZero, zero, node.sqrt(node.select(isZero, 1, sum)));
}

/// Returns the op of the logarithm if a node is max(log(z), -100) or max(log1p(z), -100) as PyTorch
/// writes F.binary_cross_entropy: with a bound made by new_full(). Null if it is not.
static Operation *clampedLogOf(Node &node) {
  FxNode fx = readFxNode(node.proto);
  if (fx.target != words::kMaximum || fx.args.size() != 2 ||
      operationOf(fx.args[1]) != "new_full" || node.numInputs() != 2)
    return nullptr;
  Operation *log = node.input(0).getDefiningOp();
  DenseElementsAttr bound = node.building.constantOf(node.input(1));
  bool isBound = bound && bound.isSplat() && isa<FloatType>(bound.getElementType()) &&
                 bound.getSplatValue<APFloat>().convertToDouble() == -100;
  bool isLog = isa_and_present<nn::LogOp, nn::Log1pOp>(log);
  return isLog && isBound && !isa<Float16Type>(Node::type(node.input(0)).getElementType())
             ? log
             : nullptr;
}

/// Returns `value`, that of max(log(z), -100), with the derivative (1 - z) / max(z (1 - z), 1e-12)
/// of z. The two logarithms of a binary cross-entropy of p, of p and of 1 - p, then have PyTorch's
/// derivative (p - y) / max(p (1 - p), 1e-12), which is finite at 0 and 1. Source: ATen's
/// binary_cross_entropy_backward. Null after an error.
static Value withFiniteSlope(Node &node, Value value, Operation *log) {
  Value x = log->getOperand(0);
  bool isShifted = isa<nn::Log1pOp>(log); // z = 1 + x, and 1 - z has lost digits of x
  Value z = isShifted ? node.add(1, x) : x;
  Value rest = isShifted ? node.neg(x) : node.sub(1, x);
  Value slope = node.div(rest, node.max(node.mul(z, rest), 1e-12));
  Value none = node.sub(x, node.stopped(x)); // 0, with the derivative 1
  return node.add(node.stopped(value), node.mul(none, node.stopped(slope)));
}

/// The larger or smaller of operands. If they are equal, both get half of the gradient, as from
/// torch.maximum and a clamp by a tensor; but operand 0 gets none of it if the exporter wrote a
/// clamp by a number so. It makes a tensor of the number first, by scalar_tensor.
template <typename OpT, nn::Predicate beyond> static Value importExtremum(Node &node) {
  FxNode fx = readFxNode(node.proto);
  StringRef target = fx.target;
  bool isClamp = target.starts_with(words::kClamp) &&
                 (!target.ends_with(".Tensor") || llvm::any_of(fx.args, [](StringRef name) {
                   return name.starts_with("scalar_tensor");
                 }));
  if (Operation *log = std::is_same_v<OpT, nn::MaxOp> ? clampedLogOf(node) : nullptr)
    return withFiniteSlope(node, node.binary<OpT>(node.input(0), node.input(1)), log);
  if (node.numInputs() != 2 || !isClamp)
    return importVariadic<OpT>(node);
  return failed(node.require(2)) ? Value() : bounded(node, node.input(0), node.input(1), beyond);
}

template <nn::Predicate predicate> static Value importCompare(Node &node) {
  return node.binary(node.input(0), node.input(1), predicate);
}

/// A copy; in the traced program perhaps x.detach().
static LogicalResult importIdentity(Node &node) {
  if (const Binding *sequence = node.sequence(0)) {
    node.setSequence(0, sequence->items);
    return success();
  }
  if (failed(node.require(1)))
    return failure();
  Value x = node.input(0);
  bool stops = node.tracedAs() == words::kDetach && Node::hasFloats(x);
  node.set(0, stops ? node.stopped(x) : x);
  return success();
}

static Value importReciprocal(Node &node) { return node.div(1, node.input(0)); }

/// Small whole powers become products, 0.5 a square root: x^2 has a gradient
/// everywhere and needs no logarithm.
static Value importPow(Node &node) {
  Value base = node.input(0), exponent = node.input(1);
  double power = node.scalarConstant(exponent).value_or(0);
  SmallVector<int64_t> shape;
  if (Node::hasFloats(base) && Node::type(exponent).getNumElements() == 1 &&
      llvm::is_contained({-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0}, power)) {
    if (failed(node.broadcastShape({base, exponent}, shape)))
      return {};
    Value x = node.broadcast(base, shape);
    if (power < 1)
      return power == 0.5 ? node.sqrt(x) : power == -0.5 ? node.rsqrt(x) : node.div(1, x);
    Value square = power == 1 ? Value() : node.mul(x, x);
    return power == 1 ? x : power == 2 ? square : node.mul(square, power == 3 ? x : square);
  }
  Type element = Node::type(base).getElementType();
  if (isa<FloatType>(element))
    return node.binary<nn::PowOp>(base, node.cast(exponent, element));
  // Integer powers occur in shape arithmetic, where doubles hold them exactly.
  Type wide = node.builder.getF64Type();
  Value result = node.binary<nn::PowOp>(node.cast(base, wide), node.cast(exponent, wide));
  return node.cast(result, element);
}

Value onnx::differsInSign(Node &node, Value remainder, Value divisor) {
  Value zero = node.like(remainder, 0);
  Value negative = node.binary(remainder, zero, nn::Predicate::LT),
        other = node.binary(divisor, zero, nn::Predicate::LT);
  Value nonZero = node.binary(remainder, zero, nn::Predicate::NE);
  return node.both(node.binary<nn::XorOp>(negative, other), nonZero);
}

Value onnx::floorRemainder(Node &node, Value x, Value y) {
  Value rem = node.binary<nn::RemOp>(x, y);
  Value divisor = rem ? node.broadcast(y, Node::type(rem).getShape()) : Value();
  Value turn = divisor ? differsInSign(node, rem, divisor) : Value();
  return node.select(turn, node.add(rem, divisor), rem);
}

/// ONNX Mod: the result has the sign of the divisor, or with fmod of the
/// dividend.
static Value importMod(Node &node) {
  Value x = node.input(0), y = node.input(1);
  bool ofDividend = node.flagAttr("fmod", false);
  return ofDividend ? node.binary<nn::RemOp>(x, y) : floorRemainder(node, x, y);
}

Value onnx::bounded(Node &node, Value x, Operand bound, nn::Predicate beyond) {
  if (!x || bound.isNull())
    return {};
  Value limit = bound.number ? node.like(x, *bound.number)
                             : node.broadcast(bound.value, Node::type(x).getShape());
  return node.select(node.binary(x, limit, beyond), limit, x);
}

static Value importClip(Node &node) {
  Value value = node.input(0), low = node.input(1), high = node.input(2);
  if (low)
    value = bounded(node, value, low, nn::Predicate::LE);
  return high ? bounded(node, value, high, nn::Predicate::GE) : value;
}

static Value importRelu(Node &node) { return bounded(node, node.input(0), 0, nn::Predicate::LE); }

static Value importLeakyRelu(Node &node) {
  Value x = node.input(0), zero = node.like(x, 0),
        scaled = node.mul(x, node.floatAttr("alpha", 0.01f));
  return node.select(node.binary(x, zero, nn::Predicate::GT), x, scaled);
}

static Value importGelu(Node &node) {
  bool tanh = node.choiceAttr("approximate", {"none", "tanh"}) == "tanh";
  return node.create<nn::GeluOp>(node.input(0).getType(), node.input(0), tanh);
}

/// com.microsoft FastGelu and BiasGelu: an optional bias first.
template <bool tanh> static Value importBiasGelu(Node &node) {
  Value value = node.has(1) ? node.add(node.input(0), node.input(1)) : node.input(0);
  return value ? node.create<nn::GeluOp>(value.getType(), value, tanh) : Value();
}

/// x * sigmoid(alpha * x): Swish (alpha 1), com.microsoft QuickGelu (1.702).
template <int thousandths> static Value importSwish(Node &node) {
  Value x = node.input(0);
  double alpha = node.floatAttr("alpha", thousandths / 1000.0);
  return alpha == 1 ? node.unary<nn::SiluOp>(x) : node.mul(x, node.sigmoid(node.mul(x, alpha)));
}

static Value importIsNan(Node &node) {
  return node.create<nn::IsNanOp>(Node::type(node.input(0)).clone(node.builder.getI1Type()),
                                  node.input(0));
}

/// IsInf, of one sign or both.
static Value importIsInf(Node &node) {
  Value x = node.input(0);
  bool negative = node.flagAttr("detect_negative", true),
       positive = node.flagAttr("detect_positive", true);
  double infinity = std::numeric_limits<double>::infinity();
  if (!negative && !positive)
    return node.constant(Node::type(x).clone(node.builder.getI1Type()), 0);
  return node.binary(negative && positive ? node.abs(x) : x, positive ? infinity : -infinity,
                     nn::Predicate::EQ);
}

/// Round to the nearest whole number, halves to even ones. It has no gradient.
static Value importRound(Node &node) {
  Value x = node.input(0), floor = node.floor(x), rest = node.sub(x, floor);
  Value half = node.mul(floor, 0.5), odd = node.binary(half, node.floor(half), nn::Predicate::NE);
  Value tie = node.binary(rest, 0.5, nn::Predicate::EQ),
        above = node.binary(rest, 0.5, nn::Predicate::GT);
  Value up = node.either(above, node.both(tie, odd));
  return node.select(up, node.add(floor, 1), floor);
}

static Value importWhere(Node &node) {
  SmallVector<int64_t> shape;
  if (failed(node.broadcastShape(node.operands(), shape)))
    return {};
  if (Node::type(node.input(1)).getElementType() != Node::type(node.input(2)).getElementType())
    return node.error("needs two operands of one element type");
  Value condition = node.broadcast(node.input(0), shape), a = node.broadcast(node.input(1), shape);
  return node.select(condition, a, node.broadcast(node.input(2), shape));
}

static Value importCast(Node &node) {
  Type element = node.typeAttr("to", Type());
  return element ? node.cast(node.input(0), element) : node.error("has no attribute 'to'");
}

static Value importCastLike(Node &node) {
  return node.cast(node.input(0), Node::type(node.input(1)).getElementType());
}

//===----------------------------------------------------------------------===//
// Activations decomposed into simpler ops
//===----------------------------------------------------------------------===//

static Value clamped(Node &node, Value value, double low, double high) {
  return bounded(node, bounded(node, value, low, nn::Predicate::LE), high, nn::Predicate::GE);
}

/// x where it is above `threshold`, else `other`.
static Value above(Node &node, Value x, double threshold, Operand other) {
  return node.select(node.binary(x, threshold, nn::Predicate::GT), x, other);
}

/// exp(min(x, 0) / divisor) - 1: the branch that is not taken must not overflow, or its gradient is
/// NaN.
static Value negativeExponential(Node &node, Value x, double divisor) {
  return node.expm1(scaled(node, bounded(node, x, 0, nn::Predicate::GT), 1 / divisor));
}

static Value importElu(Node &node) {
  Value x = node.input(0), low = negativeExponential(node, x, 1);
  return above(node, x, 0, scaled(node, low, node.floatAttr("alpha", 1)));
}

static Value importCelu(Node &node) {
  double alpha = node.floatAttr("alpha", 1);
  if (alpha == 0)
    return node.error("alpha is 0, by which it divides");
  Value x = node.input(0);
  return above(node, x, 0, scaled(node, negativeExponential(node, x, alpha), alpha));
}

static Value importSelu(Node &node) {
  Value x = node.input(0);
  double alpha = node.floatAttr("alpha", 1.67326319217681884765625);
  Value low = scaled(node, negativeExponential(node, x, 1), alpha);
  return scaled(node, above(node, x, 0, low), node.floatAttr("gamma", 1.05070102214813232421875));
}

static Value importSoftplus(Node &node) { return softplus(node, node.input(0)); }

/// x * tanh(log(1 + exp(x)))
static Value importMish(Node &node) {
  return node.mul(node.input(0), node.tanh(softplus(node, node.input(0))));
}

static Value importHardSigmoid(Node &node) {
  Value line = scaled(node, node.input(0), node.floatAttr("alpha", 0.2));
  return clamped(node, node.add(line, node.floatAttr("beta", 0.5)), 0, 1);
}

static Value importHardSwish(Node &node) {
  Value line = node.add(scaled(node, node.input(0), 1.0 / 6), 0.5);
  return node.mul(node.input(0), clamped(node, line, 0, 1));
}

static Value importSoftsign(Node &node) {
  return node.div(node.input(0), node.add(node.abs(node.input(0)), 1));
}

static Value importThresholdedRelu(Node &node) {
  return above(node, node.input(0), node.floatAttr("alpha", 1), 0);
}

/// x where it is not negative, else slope * x; the slope is broadcast to x.
static Value importPRelu(Node &node) {
  Value x = node.input(0), low = node.mul(x, node.input(1));
  if (!low || low.getType() != x.getType())
    return node.error("its slope must be broadcastable to its operand");
  return above(node, x, 0, low);
}

//===----------------------------------------------------------------------===//
// Trigonometric functions in simpler ops
//===----------------------------------------------------------------------===//

// atan(x) = pi / 2 - atan(1 / x) of x > 1, and 2 atan(x / (1 + sqrt(1 + x^2))) of others, until the
// argument is so small that few terms of the series are enough. Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions, 4.4.42, and 4.4.34 for the sum of equal arcs.

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

void onnx::registerElementwiseOps(HandlerRegistry &r) {
  r.add("", "Add", 7, importBinary<nn::AddOp>, numbers(2));
  r.add("", "Sub", 7, importBinary<nn::SubOp>, numbers(2));
  r.add("", "Mul", 7, importBinary<nn::MulOp>, numbers(2));
  r.add("", "Div", 7, importBinary<nn::DivOp>, numbers(2));
  r.add("", "And", 7, importBinary<nn::AndOp>, truths(2));
  r.add("", "Or", 7, importBinary<nn::OrOp>, truths(2));
  r.add("", "Xor", 7, importBinary<nn::XorOp>, truths(2));
  r.add("", "Max", 8, importExtremum<nn::MaxOp, nn::Predicate::LE>, needs(1));
  r.add("", "Min", 8, importExtremum<nn::MinOp, nn::Predicate::GE>, needs(1));
  r.add("", "Sum", 8, importVariadic<nn::AddOp>, needs(1));
  r.add("", "Mean", 8, importVariadic<nn::AddOp, true>, needs(1));
  r.add("", "Pow", 7, importPow, needs(2));
  r.add("", "Mod", 10, importMod, needs(2));
  r.add("", "Neg", 6, importUnary<nn::NegOp>, numbers(1));
  r.add("", "Abs", 6, importUnary<nn::AbsOp>, numbers(1));
  r.add("", "Sign", 9, importUnary<nn::SignOp>, numbers(1));
  r.add("", "Not", 1, importUnary<nn::NotOp>, truths(1));
  r.add("", "Exp", 6, importUnary<nn::ExpOp>, floats(1));
  r.add("", "Log", 6, importUnary<nn::LogOp>, floats(1));
  r.add("", "Sqrt", 6, importUnary<nn::SqrtOp>, floats(1));
  r.add("", "Floor", 6, importUnary<nn::FloorOp>, floats(1));
  r.add("", "Ceil", 6, importUnary<nn::CeilOp>, floats(1));
  r.add("", "Erf", 9, importUnary<nn::ErfOp>, floats(1));
  r.add("", "Tanh", 6, importUnary<nn::TanhOp>, floats(1));
  r.add("", "Sigmoid", 6, importUnary<nn::SigmoidOp>, floats(1));
  r.add("", "Sin", 7, importUnary<nn::SinOp>, floats(1));
  r.add("", "Cos", 7, importUnary<nn::CosOp>, floats(1));
  r.add("", "Reciprocal", 6, importReciprocal, floats(1));
  r.add("", "Identity", 1, importIdentity);
  r.add("", "Clip", 6, importClip, needs(1));
  r.add("", "Relu", 6, importRelu, needs(1));
  r.add("", "LeakyRelu", 6, importLeakyRelu, floats(1));
  r.add("", "Gelu", 20, importGelu, floats(1));
  r.add("", "Swish", 24, importSwish<1000>, floats(1));
  r.add("com.microsoft", "Gelu", 1, importGelu, floats(1));
  r.add("com.microsoft", "FastGelu", 1, importBiasGelu<true>, floats(1));
  r.add("com.microsoft", "BiasGelu", 1, importBiasGelu<false>, floats(1));
  r.add("com.microsoft", "QuickGelu", 1, importSwish<1702>, floats(1));
  r.add("", "Equal", 7, importCompare<nn::Predicate::EQ>, needs(2));
  r.add("", "Greater", 7, importCompare<nn::Predicate::GT>, needs(2));
  r.add("", "Less", 7, importCompare<nn::Predicate::LT>, needs(2));
  r.add("", "GreaterOrEqual", 12, importCompare<nn::Predicate::GE>, needs(2));
  r.add("", "LessOrEqual", 12, importCompare<nn::Predicate::LE>, needs(2));
  r.add("", "IsNaN", 9, importIsNan, floats(1));
  r.add("", "IsInf", 10, importIsInf, floats(1));
  r.add("", "Round", 11, importRound, floats(1));
  r.add("", "Where", 9, importWhere, needs(3) | truths(1));
  r.add("", "Cast", 6, importCast, needs(1));
  r.add("", "CastLike", 15, importCastLike, needs(2));
  r.add("", "Celu", 12, importCelu, floats(1));
  r.add("", "Elu", 6, importElu, floats(1));
  r.add("", "HardSigmoid", 6, importHardSigmoid, floats(1));
  r.add("", "HardSwish", 14, importHardSwish, floats(1));
  r.add("", "Mish", 18, importMish, floats(1));
  r.add("", "PRelu", 9, importPRelu, floats(2));
  r.add("", "Selu", 6, importSelu, floats(1));
  r.add("", "Softplus", 1, importSoftplus, floats(1));
  r.add("", "Softsign", 1, importSoftsign, floats(1));
  r.add("", "ThresholdedRelu", 10, importThresholdedRelu, floats(1));
  r.add("", "Tan", 7, importTan, floats(1));
  r.add("", "Sinh", 9, importHyperbolic</*isCosine=*/false>, floats(1));
  r.add("", "Cosh", 9, importHyperbolic</*isCosine=*/true>, floats(1));
  r.add("", "Atan", 7, importAtan, floats(1));
  r.add("", "Asin", 7, importArc</*isCosine=*/false>, floats(1));
  r.add("", "Acos", 7, importArc</*isCosine=*/true>, floats(1));
}
