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

Value Node::add(Value lhs, Value rhs) { return binary<nn::AddOp>(lhs, rhs); }
Value Node::sub(Value lhs, Value rhs) { return binary<nn::SubOp>(lhs, rhs); }
Value Node::mul(Value lhs, Value rhs) { return binary<nn::MulOp>(lhs, rhs); }
Value Node::cos(Value x) { return unary<nn::CosOp>(x); }
Value Node::log(Value x) { return unary<nn::LogOp>(x); }
Value Node::relu(Value x) { return x ? binary<nn::MaxOp>(x, constant(type(x), 0)) : Value(); }
Value Node::sigmoid(Value x) { return unary<nn::SigmoidOp>(x); }
Value Node::sqrt(Value x) { return unary<nn::SqrtOp>(x); }
Value Node::tanh(Value x) { return unary<nn::TanhOp>(x); }

static bool isFloat(Value value) { return isa<FloatType>(Node::type(value).getElementType()); }
static bool isBool(Value value) { return Node::type(value).getElementType().isInteger(1); }

template <typename OpT> static LogicalResult importBinary(Node &node) {
  if (failed(node.require(2)))
    return failure();
  bool logical = std::is_same_v<OpT, nn::AndOp> || std::is_same_v<OpT, nn::OrOp> ||
                 std::is_same_v<OpT, nn::XorOp>;
  for (Value value : {node.input(0), node.input(1)})
    if (isBool(value) != logical)
      return node.error("cannot take operands of type " + Node::name(value.getType()));
  node.set(0, node.binary<OpT>(node.input(0), node.input(1)));
  return success();
}

/// Min, Max, Sum and Mean take any number of operands.
template <typename OpT, bool mean = false> static LogicalResult importVariadic(Node &node) {
  if (failed(node.require(std::max(node.numInputs(), 1))))
    return failure();
  Value result = node.input(0);
  for (Value value : node.operands().drop_front())
    result = node.binary<OpT>(result, value);
  if (mean && result)
    result = node.binary<nn::DivOp>(result, node.constant(Node::type(result), node.numInputs()));
  node.set(0, result);
  return success();
}

Value onnx::rootOrZero(Node &node, Value sum) {
  auto type = Node::type(sum);
  if (!isa<FloatType>(type.getElementType()))
    return node.unary<nn::SqrtOp>(sum);
  Value zero = node.constant(type, 0);
  Value isZero = node.binary(sum, zero, nn::Predicate::EQ);
  Value other =
      isZero ? node.create<nn::SelectOp>(type, isZero, node.constant(type, 1), sum) : Value();
  Value root = other ? node.unary<nn::SqrtOp>(other) : Value();
  return root ? node.create<nn::SelectOp>(type, isZero, zero, root) : Value();
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
  Value x = log->getOperand(0), one = node.constant(Node::type(x), 1);
  auto stopped = [&](Value x) { return x ? node.unary<nn::StopGradientOp>(x) : Value(); };
  bool isShifted = isa<nn::Log1pOp>(log); // z = 1 + x, and 1 - z has lost digits of x
  Value z = isShifted ? node.add(one, x) : x;
  Value rest = isShifted ? node.unary<nn::NegOp>(x) : node.sub(one, x);
  Value product = node.mul(z, rest), least = node.constant(Node::type(x), 1e-12);
  Value slope = node.binary<nn::DivOp>(rest, node.binary<nn::MaxOp>(product, least));
  Value none = node.sub(x, stopped(x)); // 0, with the derivative 1
  return node.add(stopped(value), node.mul(none, stopped(slope)));
}

/// The larger or smaller of operands. If they are equal, both get half of the gradient, as from
/// torch.maximum and a clamp by a tensor; but operand 0 gets none of it if the exporter wrote a
/// clamp by a number so. It makes a tensor of the number first, by scalar_tensor.
template <typename OpT, nn::Predicate beyond> static LogicalResult importExtremum(Node &node) {
  FxNode fx = readFxNode(node.proto);
  StringRef target = fx.target;
  bool isClamp = target.starts_with(words::kClamp) &&
                 (!target.ends_with(".Tensor") || llvm::any_of(fx.args, [](StringRef name) {
                   return name.starts_with("scalar_tensor");
                 }));
  if (Operation *log = std::is_same_v<OpT, nn::MaxOp> ? clampedLogOf(node) : nullptr) {
    node.set(0, withFiniteSlope(node, node.binary<OpT>(node.input(0), node.input(1)), log));
    return success();
  }
  if (node.numInputs() != 2 || !isClamp)
    return importVariadic<OpT>(node);
  if (failed(node.require(2)))
    return failure();
  node.set(0, bounded(node, node.input(0), node.input(1), beyond));
  return success();
}

template <typename OpT> static LogicalResult importFloatUnary(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  node.set(0, node.unary<OpT>(node.input(0)));
  return success();
}

template <typename OpT> static LogicalResult importUnary(Node &node) {
  if (failed(node.require(1)))
    return failure();
  if (isBool(node.input(0)) != std::is_same_v<OpT, nn::NotOp>)
    return node.error("operand 0 must have " +
                      StringRef(isBool(node.input(0)) ? "numbers" : "truth values") + ", but is " +
                      Node::name(node.input(0).getType()) + ": cast it first");
  node.set(0, node.unary<OpT>(node.input(0)));
  return success();
}

template <nn::Predicate predicate> static LogicalResult importCompare(Node &node) {
  if (failed(node.require(2)))
    return failure();
  node.set(0, node.binary(node.input(0), node.input(1), predicate));
  return success();
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
  node.set(0, stops ? node.unary<nn::StopGradientOp>(x) : x);
  return success();
}

static LogicalResult importReciprocal(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value value = node.input(0);
  node.set(0, node.binary<nn::DivOp>(node.constant(Node::type(value), 1), value));
  return success();
}

/// Small whole powers become products, 0.5 a square root: x^2 has a gradient
/// everywhere and needs no logarithm.
static LogicalResult importPow(Node &node) {
  if (failed(node.require(2)))
    return failure();
  Value base = node.input(0), exponent = node.input(1);
  std::optional<double> power = node.scalarConstant(exponent);
  SmallVector<int64_t> shape;
  if (power && isFloat(base) && Node::type(exponent).getNumElements() == 1 &&
      succeeded(node.broadcastShape({base, exponent}, shape))) {
    Value x = node.broadcast(base, shape);
    if (!x)
      return failure();
    Value square =
        *power == 2 || *power == 3 || *power == 4 ? node.binary<nn::MulOp>(x, x) : Value();
    Value result;
    if (*power == 1)
      result = x;
    else if (*power == 2)
      result = square;
    else if (*power == 3)
      result = node.binary<nn::MulOp>(square, x);
    else if (*power == 4)
      result = node.binary<nn::MulOp>(square, square);
    else if (*power == 0.5)
      result = node.unary<nn::SqrtOp>(x);
    else if (*power == -0.5)
      result = node.unary<nn::RsqrtOp>(x);
    else if (*power == -1)
      result = node.binary<nn::DivOp>(node.constant(Node::type(x), 1), x);
    if (result) {
      node.set(0, result);
      return success();
    }
  }
  Type element = Node::type(base).getElementType();
  if (!isa<FloatType>(element)) {
    // Integer powers occur in shape arithmetic, where doubles hold them
    // exactly.
    Type wide = node.builder.getF64Type();
    Value result = node.binary<nn::PowOp>(node.cast(base, wide), node.cast(exponent, wide));
    node.set(0, node.cast(result, element));
    return success();
  }
  node.set(0, node.binary<nn::PowOp>(base, node.cast(exponent, element)));
  return success();
}

Value onnx::differsInSign(Node &node, Value remainder, Value divisor) {
  Value zero = node.constant(Node::type(remainder), 0);
  Value negative = node.binary(remainder, zero, nn::Predicate::LT),
        other = node.binary(divisor, zero, nn::Predicate::LT);
  Value nonZero = node.binary(remainder, zero, nn::Predicate::NE);
  return node.binary<nn::AndOp>(node.binary<nn::XorOp>(negative, other), nonZero);
}

Value onnx::floorRemainder(Node &node, Value x, Value y) {
  Value rem = node.binary<nn::RemOp>(x, y);
  Value divisor = rem ? node.broadcast(y, Node::type(rem).getShape()) : Value();
  Value turn = divisor ? differsInSign(node, rem, divisor) : Value();
  Value sum = node.binary<nn::AddOp>(rem, divisor);
  return turn && sum ? node.create<nn::SelectOp>(rem.getType(), turn, sum, rem) : Value();
}

/// ONNX Mod: the result has the sign of the divisor, or with fmod of the
/// dividend.
static LogicalResult importMod(Node &node) {
  if (failed(node.require(2)))
    return failure();
  Value x = node.input(0), y = node.input(1);
  bool ofDividend = node.flagAttr("fmod", false);
  node.set(0, ofDividend ? node.binary<nn::RemOp>(x, y) : floorRemainder(node, x, y));
  return success();
}

Value onnx::bounded(Node &node, Value x, Value bound, nn::Predicate beyond) {
  if (!x || !bound)
    return {};
  Value limit = node.broadcast(bound, Node::type(x).getShape());
  Value isBeyond = limit ? node.binary(x, limit, beyond) : Value();
  return isBeyond ? node.create<nn::SelectOp>(x.getType(), isBeyond, limit, x) : Value();
}

static LogicalResult importClip(Node &node) {
  if (failed(node.require(1)))
    return failure();
  Value value = node.input(0);
  auto type = Node::type(value);
  Value low = node.input(1), high = node.input(2);
  if (node.version < 11) {
    if (node.attribute("min"))
      low = node.constant(type, node.floatAttr("min", 0));
    if (node.attribute("max"))
      high = node.constant(type, node.floatAttr("max", 0));
  }
  if (low)
    value = bounded(node, value, low, nn::Predicate::LE);
  if (high)
    value = bounded(node, value, high, nn::Predicate::GE);
  node.set(0, value);
  return success();
}

static LogicalResult importRelu(Node &node) {
  if (failed(node.require(1)))
    return failure();
  Value x = node.input(0);
  node.set(0, bounded(node, x, node.constant(Node::type(x), 0), nn::Predicate::LE));
  return success();
}

static LogicalResult importLeakyRelu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0), zero = node.constant(Node::type(x), 0);
  Value scaled =
      node.binary<nn::MulOp>(x, node.constant(Node::type(x), node.floatAttr("alpha", 0.01f)));
  Value positive = node.binary(x, zero, nn::Predicate::GT);
  if (!scaled || !positive)
    return failure();
  node.set(0, node.create<nn::SelectOp>(x.getType(), positive, x, scaled));
  return success();
}

static LogicalResult importGelu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  std::string kind = node.stringAttr("approximate", "none");
  if (kind != "none" && kind != "tanh")
    return node.error("approximate must be none or tanh");
  node.set(0, node.create<nn::GeluOp>(node.input(0).getType(), node.input(0), kind == "tanh"));
  return success();
}

/// com.microsoft FastGelu and BiasGelu: an optional bias first.
template <bool tanh> static LogicalResult importBiasGelu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value value = node.input(0);
  if (node.has(1))
    value = node.binary<nn::AddOp>(value, node.input(1));
  node.set(0, value ? node.create<nn::GeluOp>(value.getType(), value, tanh) : Value());
  return success();
}

/// x * sigmoid(alpha * x): Swish (alpha 1), com.microsoft QuickGelu (1.702).
template <int thousandths> static LogicalResult importSwish(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  double alpha = node.floatAttr("alpha", thousandths / 1000.0);
  if (alpha == 1) {
    node.set(0, node.unary<nn::SiluOp>(x));
    return success();
  }
  Value scaled = node.binary<nn::MulOp>(x, node.constant(Node::type(x), alpha));
  node.set(0, node.binary<nn::MulOp>(x, scaled ? node.unary<nn::SigmoidOp>(scaled) : Value()));
  return success();
}

static LogicalResult importIsNan(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  node.set(0, node.create<nn::IsNanOp>(Node::type(node.input(0)).clone(node.builder.getI1Type()),
                                       node.input(0)));
  return success();
}

/// IsInf, of one sign or both.
static LogicalResult importIsInf(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  bool negative = node.flagAttr("detect_negative", true),
       positive = node.flagAttr("detect_positive", true);
  auto type = Node::type(x);
  double infinity = std::numeric_limits<double>::infinity();
  if (!negative && !positive) {
    node.set(0, node.constant(cast<RankedTensorType>(type.clone(node.builder.getI1Type())), 0));
    return success();
  }
  if (negative && positive)
    x = node.unary<nn::AbsOp>(x);
  node.set(0,
           node.binary(x, node.constant(type, positive ? infinity : -infinity), nn::Predicate::EQ));
  return success();
}

/// Round to the nearest whole number, halves to even ones. It has no gradient.
static LogicalResult importRound(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0), floor = node.unary<nn::FloorOp>(x);
  Value rest = node.binary<nn::SubOp>(x, floor);
  if (!rest)
    return failure();
  auto number = [&](double value) { return node.constant(Node::type(x), value); };
  Value half = node.binary<nn::MulOp>(floor, number(0.5));
  Value odd = half ? node.binary(half, node.unary<nn::FloorOp>(half), nn::Predicate::NE) : Value();
  Value tie = node.binary(rest, number(0.5), nn::Predicate::EQ),
        above = node.binary(rest, number(0.5), nn::Predicate::GT);
  if (!odd || !tie || !above)
    return failure();
  Value up = node.binary<nn::OrOp>(above, node.binary<nn::AndOp>(tie, odd));
  Value next = node.binary<nn::AddOp>(floor, number(1));
  node.set(0, up && next ? node.create<nn::SelectOp>(x.getType(), up, next, floor) : Value());
  return success();
}

static LogicalResult importWhere(Node &node) {
  if (failed(node.require(3)))
    return failure();
  SmallVector<int64_t> shape;
  if (failed(node.broadcastShape(node.operands(), shape)))
    return failure();
  auto element = Node::type(node.input(1)).getElementType();
  if (!isBool(node.input(0)) || Node::type(node.input(2)).getElementType() != element)
    return node.error("needs a condition of bools and two operands of one element type");
  Value condition = node.broadcast(node.input(0), shape), a = node.broadcast(node.input(1), shape),
        b = node.broadcast(node.input(2), shape);
  if (!condition || !a || !b)
    return failure();
  node.set(0, node.create<nn::SelectOp>(a.getType(), condition, a, b));
  return success();
}

static LogicalResult importCast(Node &node) {
  if (failed(node.require(1)))
    return failure();
  std::string why;
  Type element = elementType(node.builder.getContext(), node.intAttr("to", 0), why);
  if (!element)
    return node.error(why);
  node.set(0, node.cast(node.input(0), element));
  return success();
}

static LogicalResult importCastLike(Node &node) {
  if (failed(node.require(2)))
    return failure();
  node.set(0, node.cast(node.input(0), Node::type(node.input(1)).getElementType()));
  return success();
}

void onnx::registerElementwiseOps(HandlerRegistry &r) {
  r.add("", "Add", 7, importBinary<nn::AddOp>);
  r.add("", "Sub", 7, importBinary<nn::SubOp>);
  r.add("", "Mul", 7, importBinary<nn::MulOp>);
  r.add("", "Div", 7, importBinary<nn::DivOp>);
  r.add("", "And", 7, importBinary<nn::AndOp>);
  r.add("", "Or", 7, importBinary<nn::OrOp>);
  r.add("", "Xor", 7, importBinary<nn::XorOp>);
  r.add("", "Max", 8, importExtremum<nn::MaxOp, nn::Predicate::LE>);
  r.add("", "Min", 8, importExtremum<nn::MinOp, nn::Predicate::GE>);
  r.add("", "Sum", 8, importVariadic<nn::AddOp>);
  r.add("", "Mean", 8, importVariadic<nn::AddOp, true>);
  r.add("", "Pow", 7, importPow);
  r.add("", "Mod", 10, importMod);
  r.add("", "Neg", 6, importUnary<nn::NegOp>);
  r.add("", "Abs", 6, importUnary<nn::AbsOp>);
  r.add("", "Sign", 9, importUnary<nn::SignOp>);
  r.add("", "Not", 1, importUnary<nn::NotOp>);
  r.add("", "Exp", 6, importFloatUnary<nn::ExpOp>);
  r.add("", "Log", 6, importFloatUnary<nn::LogOp>);
  r.add("", "Sqrt", 6, importFloatUnary<nn::SqrtOp>);
  r.add("", "Floor", 6, importFloatUnary<nn::FloorOp>);
  r.add("", "Ceil", 6, importFloatUnary<nn::CeilOp>);
  r.add("", "Erf", 9, importFloatUnary<nn::ErfOp>);
  r.add("", "Tanh", 6, importFloatUnary<nn::TanhOp>);
  r.add("", "Sigmoid", 6, importFloatUnary<nn::SigmoidOp>);
  r.add("", "Sin", 7, importFloatUnary<nn::SinOp>);
  r.add("", "Cos", 7, importFloatUnary<nn::CosOp>);
  r.add("", "Reciprocal", 6, importReciprocal);
  r.add("", "Identity", 1, importIdentity);
  r.add("", "Clip", 6, importClip);
  r.add("", "Relu", 6, importRelu);
  r.add("", "LeakyRelu", 6, importLeakyRelu);
  r.add("", "Gelu", 20, importGelu);
  r.add("", "Swish", 24, importSwish<1000>);
  r.add("com.microsoft", "Gelu", 1, importGelu);
  r.add("com.microsoft", "FastGelu", 1, importBiasGelu<true>);
  r.add("com.microsoft", "BiasGelu", 1, importBiasGelu<false>);
  r.add("com.microsoft", "QuickGelu", 1, importSwish<1702>);
  r.add("", "Equal", 7, importCompare<nn::Predicate::EQ>);
  r.add("", "Greater", 7, importCompare<nn::Predicate::GT>);
  r.add("", "Less", 7, importCompare<nn::Predicate::LT>);
  r.add("", "GreaterOrEqual", 12, importCompare<nn::Predicate::GE>);
  r.add("", "LessOrEqual", 12, importCompare<nn::Predicate::LE>);
  r.add("", "IsNaN", 9, importIsNan);
  r.add("", "IsInf", 10, importIsInf);
  r.add("", "Round", 11, importRound);
  r.add("", "Where", 9, importWhere);
  r.add("", "Cast", 6, importCast);
  r.add("", "CastLike", 15, importCastLike);
}
