//===- Elementwise.cpp - Arithmetic, comparisons, activations -------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static bool isFloat(Value value) { return isa<FloatType>(Node::type(value).getElementType()); }
static bool isBool(Value value) { return Node::type(value).getElementType().isInteger(1); }

template <typename OpT> static Value importBinary(Node &node) {
  bool logical = std::is_same_v<OpT, nn::AndOp> || std::is_same_v<OpT, nn::OrOp> ||
                 std::is_same_v<OpT, nn::XorOp>;
  for (Value value : {node.input(0), node.input(1)})
    if (isBool(value) != logical)
      return node.error("cannot take operands of type {}", value);
  return node.binary<OpT>(node.input(0), node.input(1));
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
  if (!sum || !isa<FloatType>(Node::type(sum).getElementType()))
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

template <typename OpT> static Value importFloatUnary(Node &node) {
  return node.unary<OpT>(node.input(0));
}

template <typename OpT> static Value importUnary(Node &node) {
  Value x = node.input(0);
  if (isBool(x) != std::is_same_v<OpT, nn::NotOp>)
    return node.error("operand 0 must have {}, but is {}: cast it first",
                      isBool(x) ? "numbers" : "truth values", x);
  return node.unary<OpT>(x);
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
  bool stops = node.tracedAs() == words::kDetach && isFloat(x);
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
  if (isFloat(base) && Node::type(exponent).getNumElements() == 1 &&
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
  if (!isBool(node.input(0)) ||
      Node::type(node.input(1)).getElementType() != Node::type(node.input(2)).getElementType())
    return node.error("needs a condition of bools and two operands of one element type");
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

void onnx::registerElementwiseOps(HandlerRegistry &r) {
  r.add("", "Add", 7, importBinary<nn::AddOp>, needs(2));
  r.add("", "Sub", 7, importBinary<nn::SubOp>, needs(2));
  r.add("", "Mul", 7, importBinary<nn::MulOp>, needs(2));
  r.add("", "Div", 7, importBinary<nn::DivOp>, needs(2));
  r.add("", "And", 7, importBinary<nn::AndOp>, needs(2));
  r.add("", "Or", 7, importBinary<nn::OrOp>, needs(2));
  r.add("", "Xor", 7, importBinary<nn::XorOp>, needs(2));
  r.add("", "Max", 8, importExtremum<nn::MaxOp, nn::Predicate::LE>, needs(1));
  r.add("", "Min", 8, importExtremum<nn::MinOp, nn::Predicate::GE>, needs(1));
  r.add("", "Sum", 8, importVariadic<nn::AddOp>, needs(1));
  r.add("", "Mean", 8, importVariadic<nn::AddOp, true>, needs(1));
  r.add("", "Pow", 7, importPow, needs(2));
  r.add("", "Mod", 10, importMod, needs(2));
  r.add("", "Neg", 6, importUnary<nn::NegOp>, needs(1));
  r.add("", "Abs", 6, importUnary<nn::AbsOp>, needs(1));
  r.add("", "Sign", 9, importUnary<nn::SignOp>, needs(1));
  r.add("", "Not", 1, importUnary<nn::NotOp>, needs(1));
  r.add("", "Exp", 6, importFloatUnary<nn::ExpOp>, floats(1));
  r.add("", "Log", 6, importFloatUnary<nn::LogOp>, floats(1));
  r.add("", "Sqrt", 6, importFloatUnary<nn::SqrtOp>, floats(1));
  r.add("", "Floor", 6, importFloatUnary<nn::FloorOp>, floats(1));
  r.add("", "Ceil", 6, importFloatUnary<nn::CeilOp>, floats(1));
  r.add("", "Erf", 9, importFloatUnary<nn::ErfOp>, floats(1));
  r.add("", "Tanh", 6, importFloatUnary<nn::TanhOp>, floats(1));
  r.add("", "Sigmoid", 6, importFloatUnary<nn::SigmoidOp>, floats(1));
  r.add("", "Sin", 7, importFloatUnary<nn::SinOp>, floats(1));
  r.add("", "Cos", 7, importFloatUnary<nn::CosOp>, floats(1));
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
  r.add("", "Where", 9, importWhere, needs(3));
  r.add("", "Cast", 6, importCast, needs(1));
  r.add("", "CastLike", 15, importCastLike, needs(2));
}
