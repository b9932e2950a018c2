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

/// Min, Max, Sum and Mean take any number of operands.
template <typename OpT> static Tensor combined(Node &node) {
  Tensor result = node.input(0);
  for (int i = 1; i < node.numInputs(); ++i)
    result = binary<OpT>(result, node.input(i));
  return result;
}

Tensor onnx::scaled(Tensor x, double factor) { return factor == 1 ? x : x * factor; }

Tensor onnx::rootOrZero(Tensor sum) {
  if (!sum || !sum.hasFloats())
    return sqrt(sum);
  Tensor zero = sum.like(0), isZero = equal(sum, zero);
  return select(isZero, zero, sqrt(select(isZero, 1, sum)));
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
  return isLog && isBound && !isa<Float16Type>(node.input(0).element()) ? log : nullptr;
}

/// Returns `value`, that of max(log(z), -100), with the derivative (1 - z) / max(z (1 - z), 1e-12)
/// of z. The two logarithms of a binary cross-entropy of p, of p and of 1 - p, then have PyTorch's
/// derivative (p - y) / max(p (1 - p), 1e-12), which is finite at 0 and 1. Source: ATen's
/// binary_cross_entropy_backward. Null after an error.
static Tensor withFiniteSlope(Tensor value, Operation *log) {
  if (!value)
    return {};
  Tensor x(value.node(), log->getOperand(0));
  bool isShifted = isa<nn::Log1pOp>(log); // z = 1 + x, and 1 - z has lost digits of x
  Tensor z = isShifted ? 1 + x : x, rest = isShifted ? -x : 1 - x;
  Tensor slope = rest / max(z * rest, 1e-12);
  Tensor none = x - stopped(x); // 0, with the derivative 1
  return stopped(value) + none * stopped(slope);
}

/// The larger or smaller of operands. If they are equal, both get half of the gradient, as from
/// torch.maximum and a clamp by a tensor; but operand 0 gets none of it if the exporter wrote a
/// clamp by a number so. It makes a tensor of the number first, by scalar_tensor.
template <typename OpT, nn::Predicate beyond> static Tensor importExtremum(Node &node) {
  FxNode fx = readFxNode(node.proto);
  StringRef target = fx.target;
  bool isClamp = target.starts_with(words::kClamp) &&
                 (!target.ends_with(".Tensor") || llvm::any_of(fx.args, [](StringRef name) {
                   return name.starts_with("scalar_tensor");
                 }));
  if (Operation *log = std::is_same_v<OpT, nn::MaxOp> ? clampedLogOf(node) : nullptr)
    return withFiniteSlope(combined<OpT>(node), log);
  return isClamp && node.numInputs() == 2 ? bounded(node.input(0), node.input(1), beyond)
                                          : combined<OpT>(node);
}

/// A copy; in the traced program perhaps x.detach().
static LogicalResult importIdentity(Node &node) {
  if (const Binding *sequence = node.sequence(0))
    return node.setSequence(0, sequence->items), success();
  if (failed(node.require(1)))
    return failure();
  Tensor x = node.input(0);
  return node.give(node.tracedAs() == words::kDetach && x.hasFloats() ? stopped(x) : x);
}

/// Small whole powers become products, 0.5 a square root: x^2 has a gradient
/// everywhere and needs no logarithm.
static Tensor power(Tensor base, Tensor exponent) {
  Node &node = base.node();
  double power = node.scalarConstant(exponent).value_or(0);
  Sizes shape;
  if (base.hasFloats() && exponent.count() == 1 &&
      llvm::is_contained({-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0}, power)) {
    if (failed(broadcastShape({base, exponent}, shape)))
      return {};
    Tensor x = base.broadcast(shape);
    if (power <= 1)
      return power == 1 ? x : power == 0.5 ? sqrt(x) : power == -0.5 ? rsqrt(x) : 1 / x;
    Tensor square = x * x;
    return power == 2 ? square : square * (power == 3 ? x : square);
  }
  // Integer powers occur in shape arithmetic, where doubles hold them exactly.
  Type wide = base.hasFloats() ? base.element() : node.builder.getF64Type();
  return binary<nn::PowOp>(base.cast(wide), exponent.cast(wide)).cast(base.element());
}

Tensor onnx::differsInSign(Tensor remainder, Tensor divisor) {
  Tensor zero = remainder.like(0), negative = remainder < zero, other = divisor < zero;
  Tensor nonZero = differ(remainder, zero);
  return binary<nn::XorOp>(negative, other) & nonZero;
}

Tensor onnx::floorRemainder(Tensor x, Tensor y) {
  Tensor rem = binary<nn::RemOp>(x, y), divisor = rem ? y.broadcast(rem.shape()) : Tensor();
  return select(differsInSign(rem, divisor), rem + divisor, rem);
}

/// The result has the sign of the divisor, or with fmod of the dividend.
static Tensor importMod(Tensor x, Tensor y) {
  return x.node().flagAttr("fmod", false) ? binary<nn::RemOp>(x, y) : floorRemainder(x, y);
}

Tensor onnx::bounded(Tensor x, Operand bound, nn::Predicate beyond) {
  if (!x || bound.isNull())
    return {};
  Tensor limit = bound.number ? x.like(*bound.number) : bound.value.broadcast(x.shape());
  return select(compare(x, limit, beyond), limit, x);
}

static Tensor importClip(Tensor value, Tensor low, Tensor high) {
  if (low)
    value = bounded(value, low, nn::Predicate::LE);
  return high ? bounded(value, high, nn::Predicate::GE) : value;
}

static Tensor importLeakyRelu(Tensor x) {
  Tensor zero = x.like(0), low = x * x.node().floatAttr("alpha", 0.01f);
  return select(x > zero, x, low);
}

template <bool tanh> static Tensor gelu(Tensor x) {
  return x ? x.node().create<nn::GeluOp>(x.getType(), x, tanh) : x;
}

static Tensor importGelu(Tensor x) {
  bool isTanh = x.node().choiceAttr("approximate", {"none", "tanh"}) == "tanh";
  return isTanh ? gelu<true>(x) : gelu<false>(x);
}

/// com.microsoft FastGelu and BiasGelu: an optional bias first.
template <bool tanh> static Tensor importBiasGelu(Tensor x, Tensor bias) {
  return gelu<tanh>(bias ? x + bias : x);
}

/// x * sigmoid(alpha * x): Swish (alpha 1), com.microsoft QuickGelu (1.702).
template <int thousandths> static Tensor importSwish(Tensor x) {
  double alpha = x.node().floatAttr("alpha", thousandths / 1000.0);
  return alpha == 1 ? unary<nn::SiluOp>(x) : x * sigmoid(x * alpha);
}

/// IsInf, of one sign or both.
static Tensor importIsInf(Tensor x) {
  Node &node = x.node();
  bool negative = node.flagAttr("detect_negative", true),
       positive = node.flagAttr("detect_positive", true);
  if (!negative && !positive)
    return node.constant(x.type().clone(node.builder.getI1Type()), 0);
  return equal(negative && positive ? abs(x) : x, positive ? HUGE_VAL : -HUGE_VAL);
}

/// Round to the nearest whole number, halves to even ones. It has no gradient.
static Tensor rounded(Tensor x) {
  Tensor low = floor(x), rest = x - low;
  Tensor half = low * 0.5, odd = differ(half, floor(half));
  Tensor tie = equal(rest, 0.5), above = rest > 0.5;
  return select(above | (tie & odd), low + 1, low);
}

static Tensor importWhere(Node &node, Tensor condition, Tensor yes, Tensor no) {
  Sizes shape;
  if (failed(broadcastShape(node.operands(), shape)))
    return {};
  if (yes.element() != no.element())
    return node.error("needs two operands of one element type");
  condition = condition.broadcast(shape), yes = yes.broadcast(shape);
  return select(condition, yes, no.broadcast(shape));
}

static Tensor importCast(Tensor x) {
  Type element = x.node().typeAttr("to", Type());
  return element ? x.cast(element) : x.node().error("has no attribute 'to'");
}

//===----------------------------------------------------------------------===//
// Activations decomposed into simpler ops
//===----------------------------------------------------------------------===//

static Tensor clamped(Tensor value, double low, double high) {
  return bounded(bounded(value, low, nn::Predicate::LE), high, nn::Predicate::GE);
}

/// x where it is positive, else alpha * (exp(x / divisor) - 1): the branch that is not taken must
/// not overflow, or its gradient is NaN.
static Tensor exponentialUnit(Tensor x, double alpha, double divisor = 1) {
  Tensor low = scaled(expm1(scaled(bounded(x, 0, nn::Predicate::GT), 1 / divisor)), alpha);
  return select(x > 0, x, low);
}

static Tensor importElu(Tensor x) { return exponentialUnit(x, x.node().floatAttr("alpha", 1)); }

static Tensor importCelu(Tensor x) {
  double alpha = x.node().floatAttr("alpha", 1);
  if (alpha == 0)
    return x.node().error("alpha is 0, by which it divides");
  return exponentialUnit(x, alpha, alpha);
}

static Tensor importSelu(Tensor x) {
  double alpha = x.node().floatAttr("alpha", 1.67326319217681884765625);
  return scaled(exponentialUnit(x, alpha), x.node().floatAttr("gamma", 1.05070102214813232421875));
}

static Tensor importHardSigmoid(Tensor x) {
  Tensor line = scaled(x, x.node().floatAttr("alpha", 0.2));
  return clamped(line + x.node().floatAttr("beta", 0.5), 0, 1);
}

/// x where it is not negative, else slope * x; the slope is broadcast to x.
static Tensor importPRelu(Tensor x, Tensor slope) {
  Tensor low = x * slope;
  if (!low || low.getType() != x.getType())
    return x.node().error("its slope must be broadcastable to its operand");
  return select(x > 0, x, low);
}

// atan(x) = pi / 2 - atan(1 / x) of x > 1, and 2 atan(x / (1 + sqrt(1 + x^2))) of others, until the
// argument is so small that few terms of the series are enough. Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions, 4.4.42, and 4.4.34 for the sum of equal arcs.

/// The number of halvings, after which the argument is at most tan(pi / 32) = 0.099, and the terms
/// of the series: the first one that is left out is below 1e-17.
static constexpr int kHalvings = 3, kTerms = 8;

/// The function of x in [-1, 1].
static Tensor arcTangentOfSmall(Tensor x) {
  for (int i = 0; i < kHalvings; ++i)
    x = x / (1 + sqrt(1 + x * x));
  Tensor square = x * x, sum = square.like(0);
  for (int term = kTerms; term-- > 0;)
    sum = (term % 2 ? -1.0 : 1.0) / (2 * term + 1) + square * sum;
  return (1 << kHalvings) * x * sum;
}

/// The branch that is not taken must be finite, or its gradient is NaN.
static Tensor arcTangent(Tensor x) {
  Tensor isLarge = abs(x) > 1, inverse = 1 / select(isLarge, x, 1);
  Tensor arc = arcTangentOfSmall(select(isLarge, inverse, x));
  Tensor quarter = select(x > 0, x.like(M_PI_2), -M_PI_2);
  return select(isLarge, quarter - arc, arc);
}

/// Whether a number is negative or -0.
static Tensor hasMinus(Tensor x) {
  Tensor inverse = 1 / x, isBelow = x < 0;
  return isBelow | (inverse < 0);
}

/// The arc of the smaller operand's quotient by the larger one, from the axis of the larger one.
/// Both are 0 or infinite only at points where the quotient is set, without a gradient.
Tensor onnx::arcTangent2(Tensor y, Tensor x) {
  Operand first(y), second(x);
  if (failed(match(first, second)))
    return {};
  y = first.value, x = second.value;
  Tensor isSteep = abs(y) > abs(x), small = select(isSteep, x, y), large = select(isSteep, y, x);
  Tensor minusY = hasMinus(y), minusX = hasMinus(x);
  Tensor isZero = equal(large, 0), isInfinite = equal(abs(small), HUGE_VAL);
  auto sign = [](Tensor minus, Tensor x, double size) {
    return select(minus, x.like(-size), size);
  };
  Tensor quotient = select(isInfinite, sign(minusY, y, 1), select(isZero, 0, small)) /
                    select(isInfinite, sign(minusX, y, 1), select(isZero, 1, large));
  Tensor arc = arcTangentOfSmall(quotient);
  Tensor quarter = sign(minusY, y, M_PI_2), half = sign(minusY, y, M_PI);
  return select(isSteep, quarter - arc, arc + select(minusX, half, 0));
}

/// asin(x) = 2 atan(x / (1 + sqrt(1 - x^2))), acos(x) = 2 atan(sqrt((1 - x) / (1 + x))): neither
/// subtracts nearly equal numbers. Their gradients at 1 and -1 are not finite, as PyTorch's.
template <bool isCosine> static Tensor arc(Tensor x) {
  Tensor above = 1 + x, below = 1 - x;
  return 2 * arcTangent(isCosine ? sqrt(below / above) : x / (1 + sqrt(below * above)));
}

/// cosh(x) = 1 + 2 sinh(x/2)^2, which overflows late and has the derivative's digits near 0, with
/// sinh(z) = ((e^z - 1) - (e^-z - 1)) / 2. sinh(x) = tanh(x) cosh(x), which subtracts nothing.
template <bool isCosine> static Tensor hyperbolic(Tensor x) {
  Tensor up = expm1(0.5 * x), down = expm1(-(0.5 * x));
  Tensor sine = 0.5 * (up - down), cosine = 1 + 2 * sine * sine;
  return isCosine ? cosine : tanh(x) * cosine;
}

void onnx::registerElementwiseOps(HandlerRegistry &r) {
  r.add("", "Add", 7, binary<nn::AddOp>, numbers(2));
  r.add("", "Sub", 7, binary<nn::SubOp>, numbers(2));
  r.add("", "Mul", 7, binary<nn::MulOp>, numbers(2));
  r.add("", "Div", 7, binary<nn::DivOp>, numbers(2));
  r.add("", "And", 7, binary<nn::AndOp>, truths(2));
  r.add("", "Or", 7, binary<nn::OrOp>, truths(2));
  r.add("", "Xor", 7, binary<nn::XorOp>, truths(2));
  r.add("", "Max", 8, importExtremum<nn::MaxOp, nn::Predicate::LE>, needs(kAllOperands));
  r.add("", "Min", 8, importExtremum<nn::MinOp, nn::Predicate::GE>, needs(kAllOperands));
  r.add("", "Sum", 8, combined<nn::AddOp>, needs(kAllOperands));
  auto mean = [](Node &node) { return combined<nn::AddOp>(node) / node.numInputs(); };
  r.add("", "Mean", 8, mean, needs(kAllOperands));
  r.add("", "Pow", 7, power, needs(2));
  r.add("", "Mod", 10, importMod, needs(2));
  r.add("", "Neg", 6, unary<nn::NegOp>, numbers(1));
  r.add("", "Abs", 6, unary<nn::AbsOp>, numbers(1));
  r.add("", "Sign", 9, unary<nn::SignOp>, numbers(1));
  r.add("", "Not", 1, unary<nn::NotOp>, truths(1));
  r.add("", "Exp", 6, unary<nn::ExpOp>, floats(1));
  r.add("", "Log", 6, unary<nn::LogOp>, floats(1));
  r.add("", "Sqrt", 6, unary<nn::SqrtOp>, floats(1));
  r.add("", "Floor", 6, unary<nn::FloorOp>, floats(1));
  r.add("", "Ceil", 6, unary<nn::CeilOp>, floats(1));
  r.add("", "Erf", 9, unary<nn::ErfOp>, floats(1));
  r.add("", "Tanh", 6, unary<nn::TanhOp>, floats(1));
  r.add("", "Sigmoid", 6, unary<nn::SigmoidOp>, floats(1));
  r.add("", "Sin", 7, unary<nn::SinOp>, floats(1));
  r.add("", "Cos", 7, unary<nn::CosOp>, floats(1));
  r.add("", "Reciprocal", 6, [](Tensor x) { return 1 / x; }, floats(1));
  r.add("", "Identity", 1, importIdentity);
  r.add("", "Clip", 6, importClip, needs(1));
  r.add("", "Relu", 6, [](Tensor x) { return bounded(x, 0, nn::Predicate::LE); }, needs(1));
  r.add("", "LeakyRelu", 6, importLeakyRelu, floats(1));
  r.add("", "Gelu", 20, importGelu, floats(1));
  r.add("", "Swish", 24, importSwish<1000>, floats(1));
  r.add("com.microsoft", "Gelu", 1, importGelu, floats(1));
  r.add("com.microsoft", "FastGelu", 1, importBiasGelu<true>, floats(1));
  r.add("com.microsoft", "BiasGelu", 1, importBiasGelu<false>, floats(1));
  r.add("com.microsoft", "QuickGelu", 1, importSwish<1702>, floats(1));
  r.add("", "Equal", 7, equal, needs(2));
  r.add("", "Greater", 7, [](Tensor x, Tensor y) { return x > y; }, needs(2));
  r.add("", "Less", 7, [](Tensor x, Tensor y) { return x < y; }, needs(2));
  r.add("", "GreaterOrEqual", 12, [](Tensor x, Tensor y) { return x >= y; }, needs(2));
  r.add("", "LessOrEqual", 12, [](Tensor x, Tensor y) { return x <= y; }, needs(2));
  r.add("", "IsNaN", 9, isNan, floats(1));
  r.add("", "IsInf", 10, importIsInf, floats(1));
  r.add("", "Round", 11, rounded, floats(1));
  r.add("", "Where", 9, importWhere, needs(3) | truths(1));
  r.add("", "Cast", 6, importCast, needs(1));
  r.add("", "CastLike", 15, [](Tensor x, Tensor y) { return x.cast(y.element()); }, needs(2));
  r.add("", "Celu", 12, importCelu, floats(1));
  r.add("", "Elu", 6, importElu, floats(1));
  r.add("", "HardSigmoid", 6, importHardSigmoid, floats(1));
  auto hardSwish = [](Tensor x) { return x * clamped(scaled(x, 1.0 / 6) + 0.5, 0, 1); };
  r.add("", "HardSwish", 14, hardSwish, floats(1));
  r.add("", "Mish", 18, [](Tensor x) { return x * tanh(softplus(x)); }, floats(1));
  r.add("", "PRelu", 9, importPRelu, floats(2));
  r.add("", "Selu", 6, importSelu, floats(1));
  r.add("", "Softplus", 1, softplus, floats(1));
  r.add("", "Softsign", 1, [](Tensor x) { return x / (abs(x) + 1); }, floats(1));
  auto thresholded = [](Tensor x) { return select(x > x.node().floatAttr("alpha", 1), x, 0); };
  r.add("", "ThresholdedRelu", 10, thresholded, floats(1));
  r.add("", "Tan", 7, [](Tensor x) { return sin(x) / cos(x); }, floats(1));
  r.add("", "Sinh", 9, hyperbolic</*isCosine=*/false>, floats(1));
  r.add("", "Cosh", 9, hyperbolic</*isCosine=*/true>, floats(1));
  r.add("", "Atan", 7, arcTangent, floats(1));
  r.add("", "Asin", 7, arc</*isCosine=*/false>, floats(1));
  r.add("", "Acos", 7, arc</*isCosine=*/true>, floats(1));
}
