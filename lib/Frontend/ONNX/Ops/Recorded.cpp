//===- Recorded.cpp - Operations that are imported as a whole -------------===//
//
// The exporter writes some operations of PyTorch as several nodes that lose digits, overflow, or
// have another derivative where PyTorch's operation has none of this: log1p as a logarithm of a
// sum, xlogy as a choice. They are imported as a whole at their last node, by the record of the
// operation. Where a file has no record, the nodes themselves tell it if there is only one
// operation that they can stand for.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "mlir/IR/Matchers.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

using matchers::m_Any, matchers::m_Val;

/// Matches a constant whose elements are all this number.
struct IsNumber {
  Node &node;
  double number;

  bool match(Operation *op) {
    return op->getNumResults() == 1 && node.scalarConstant(op->getResult(0)) == number;
  }
};

/// Whether the first operands of a node match.
template <typename... Matchers> static bool operandsMatch(Node &node, Matchers... matchers) {
  int operand = 0;
  return (matchPattern(node.input(operand++), matchers) && ...);
}

/// Returns the operand of a unary op; null if the value is not the result of one.
template <typename OpT> static Value inside(Value value) {
  auto op = value ? value.getDefiningOp<OpT>() : OpT();
  return op ? op.getInput() : Value();
}

/// log(1 + exp(-|x|)), which does not overflow.
static Value logOnePlusExp(Node &node, Value x) {
  return node.log1p(node.exp(node.neg(node.abs(x))));
}

Value onnx::softplus(Node &node, Value x) {
  Value zero = node.like(x, 0);
  return node.add(node.max(x, zero), logOnePlusExp(node, x));
}

/// log(1 / (1 + exp(-x)))
static Value logSigmoid(Node &node, Value x) {
  Value zero = node.like(x, 0);
  return node.sub(node.min(x, zero), logOnePlusExp(node, x));
}

/// log(base^a + base^b) / log(base) with scale = log(base). Where both are equal, infinite ones
/// included, each gets half of the gradient.
static Value logAddExp(Node &node, Value a, Value b, double scale = 1) {
  Value larger = node.max(a, b), isEqual = node.binary(a, b, nn::Predicate::EQ);
  Value distance = node.select(isEqual, 0, node.sub(a, b));
  Value rest = logOnePlusExp(node, scaled(node, distance, scale));
  return node.add(larger, scale == 1 ? rest : node.div(rest, scale));
}

//===----------------------------------------------------------------------===//
// Operations, by their last node. Null if the nodes are others.
//===----------------------------------------------------------------------===//

static Value readExpm1(Node &node) {
  Value x;
  return operandsMatch(node, m_Op<nn::ExpOp>(m_Any(&x)), IsNumber{node, 1}) ? node.expm1(x)
                                                                            : Value();
}

static Value readLog1p(Node &node) {
  IsNumber one{node, 1};
  Value x;
  return operandsMatch(node, m_Op<nn::AddOp>(m_Any(&x), one)) ||
                 operandsMatch(node, m_Op<nn::AddOp>(one, m_Any(&x)))
             ? node.log1p(x)
             : Value();
}

static Value readErfc(Node &node) {
  Value x;
  return operandsMatch(node, IsNumber{node, 1}, m_Op<nn::ErfOp>(m_Any(&x)))
             ? node.unary<nn::ErfcOp>(x)
             : Value();
}

/// exp(x^2) (1 - erf(x))
static Value readErfcx(Node &node) {
  Value x, y;
  if (!operandsMatch(node, m_Op<nn::ExpOp>(m_Op<nn::MulOp>(m_Any(&x), m_Any(&y)))) || x != y)
    return {};
  auto erf = m_Op<nn::ErfOp>(m_Val(x));
  bool fits = matchPattern(node.input(1), m_Op<nn::ErfcOp>(m_Val(x))) ||
              matchPattern(node.input(1), m_Op<nn::SubOp>(IsNumber{node, 1}, erf));
  return fits ? node.unary<nn::ErfcxOp>(x) : Value();
}

/// The logarithm of the normal distribution, log_ndtr(x). Each branch gets operands of its own: at
/// those of the other one it overflows, and the gradient of what is not chosen would be NaN. With
/// u = x / sqrt(2) the nodes are
///   x < 1 ? log(erfcx(-u) / 2) - u^2 : log1p(-erfc(u) / 2)
static Value readLogNdtr(Node &node) {
  IsNumber isTwo{node, 2};
  Value u, left, right;
  auto ofMinus = m_Op<nn::ErfcxOp>(m_Op<nn::NegOp>(m_Any(&u)));
  if (!operandsMatch(node, m_Op<nn::CompareOp>(m_Any(), IsNumber{node, 1}),
                     m_Op<nn::SubOp>(m_Op<nn::LogOp>(m_Op<nn::DivOp>(ofMinus, isTwo)),
                                     m_Op<nn::MulOp>(m_Any(&left), m_Any(&right)))) ||
      left != u || right != u)
    return {};
  auto isLow = node.input(0).getDefiningOp<nn::CompareOp>();
  auto minusErfc = m_Op<nn::NegOp>(m_Op<nn::ErfcOp>(m_Val(u)));
  if (isLow.getPredicate() != nn::Predicate::LT ||
      !matchPattern(node.input(2), m_Op<nn::Log1pOp>(m_Op<nn::DivOp>(minusErfc, isTwo))))
    return {};
  Value zero = node.like(u, 0), two = node.like(u, 2);
  Value ofLow = node.select(isLow, u, zero), ofHigh = node.select(isLow, zero, u);
  Value scaled = node.unary<nn::ErfcxOp>(node.neg(ofLow));
  Value low = node.sub(node.log(node.div(scaled, two)), node.mul(ofLow, ofLow));
  Value upper = node.neg(node.unary<nn::ErfcOp>(ofHigh));
  return node.select(isLow, low, node.log1p(node.div(upper, two)));
}

static Value readLogSigmoid(Node &node) {
  return logSigmoid(node, inside<nn::SigmoidOp>(node.input(0)));
}

/// Returns what operand 0, a difference, subtracts from 1; null if it is no such difference.
static Value subtractedFromOne(Node &node) {
  Value x;
  return operandsMatch(node, m_Op<nn::SubOp>(IsNumber{node, 1}, m_Any(&x))) ? x : Value();
}

/// log(1 - sigmoid(x)), as the exporter of TorchScript writes a binary cross-entropy of logits.
static Value readLogOneMinusSigmoid(Node &node) {
  return logSigmoid(node, node.neg(inside<nn::SigmoidOp>(subtractedFromOne(node))));
}

static Value readLogOneMinus(Node &node) { return node.log1p(node.neg(subtractedFromOne(node))); }

static Value readLogAddExp(Node &node) {
  Value a, b;
  auto sum = m_Op<nn::AddOp>(m_Op<nn::ExpOp>(m_Any(&a)), m_Op<nn::ExpOp>(m_Any(&b)));
  return operandsMatch(node, sum) ? logAddExp(node, a, b) : Value();
}

/// log(2^a + 2^b) / log(2)
static Value readLogAddExp2(Node &node) {
  IsNumber two{node, 2};
  Value a, b;
  auto sum = m_Op<nn::AddOp>(m_Op<nn::PowOp>(two, m_Any(&a)), m_Op<nn::PowOp>(two, m_Any(&b)));
  return operandsMatch(node, m_Op<nn::LogOp>(sum)) ? logAddExp(node, a, b, std::log(2.0)) : Value();
}

/// Sums of exponentials that end at each element. Each pass adds those that end `step` elements
/// before; all are relative to their own largest element.
static Value readLogCumSumExp(Node &node) {
  Value y;
  auto shifted = m_Op<nn::SubOp>(m_Any(&y), m_Any());
  if (!operandsMatch(node, m_Op<nn::LogOp>(m_Op<nn::CumsumOp>(m_Op<nn::ExpOp>(shifted)))))
    return {};
  auto scan = inside<nn::LogOp>(node.input(0)).getDefiningOp<nn::CumsumOp>();
  if (scan.getExclusive() || scan.getReverse())
    return {};
  auto type = Node::type(y);
  int64_t dim = scan.getDim(), size = type.getDimSize(dim);
  for (int64_t step = 1; y && step < size; step *= 2) {
    Value none = node.constant(type.clone(withSize(type.getShape(), dim, step)),
                               -std::numeric_limits<double>::infinity());
    y = logAddExp(node, y, node.joined({none, node.part(y, dim, 0, size - step)}, dim));
  }
  return y;
}

/// x log(y) with the value 0 where x is 0: x is chosen there. The exporter may have folded the
/// condition, although x is a parameter. If y is a constant, its logarithm was computed before.
static Value readXLogY(Node &node) {
  if (node.input(0).getDefiningOp<nn::IsNanOp>())
    return {}; // the choice for NaN, which the last node reads
  Value x = node.input(1), product = node.input(2);
  if (auto choice = product.getDefiningOp<nn::SelectOp>())
    product = choice.getOnFalse();
  auto factors = product.getDefiningOp<nn::MulOp>();
  Value log = factors ? factors.getRhs() : Value();
  Value factor = factors ? factors.getLhs() : Value();
  if (Value narrow = inside<nn::BroadcastOp>(factor))
    factor = narrow;
  if (factor != x && node.building.constantOf(x))
    return {}; // the choice for NaN of a constant y, or one for x that has no gradient
  if (factor != x)
    log = {};
  if (Value y = inside<nn::LogOp>(log))
    return node.binary<nn::XLogYOp>(x, y);
  DenseElementsAttr known = log ? node.building.constantOf(log) : DenseElementsAttr();
  if (known && isa<FloatType>(known.getElementType()) &&
      llvm::all_of(known.getValues<APFloat>(),
                   [](const APFloat &number) { return number.isFinite(); }))
    return node.mul(x, log);
  return node.error(
      "is one of the nodes of aten.xlogy, but they are not those that exporters up to "
      "torch 2.15 write, and the derivative where the first operand is 0 would be "
      "wrong. Export with shale.export, or with torch.onnx.export(..., optimize=False), or write the model "
      "with x * torch.log(y) if x is never 0");
}

/// sin(pi x) / (pi x), with the value 1 and the derivative 0 at 0, and where 1 / x may overflow.
static Value readSinc(Node &node) {
  Value x, divisor;
  auto quotient = m_Op<nn::DivOp>(m_Op<nn::SinOp>(m_Any(&x)), m_Any(&divisor));
  if (!node.input(0).getDefiningOp<nn::CompareOp>() || !matchPattern(node.input(2), quotient) ||
      x != divisor)
    return {};
  Value isTiny = node.binary(node.abs(x), 1e-30, nn::Predicate::LE);
  Value other = node.select(isTiny, 1, x);
  return node.select(isTiny, 1, node.div(node.sin(other), other));
}

/// The angle of a point: the nodes divide by 0 on an axis, and have the wrong sign on the negative
/// part of x. They choose by the sign of x, then by that of y.
static Value readAtan2(Node &node) {
  auto ofX = node.input(2).getDefiningOp<nn::SelectOp>();
  auto ofY = ofX ? ofX.getOnTrue().getDefiningOp<nn::SelectOp>() : nn::SelectOp();
  if (!ofY || !node.input(0).getDefiningOp<nn::IsNanOp>())
    return {};
  auto compared = [](Value condition, nn::Predicate predicate) {
    if (Value narrow = inside<nn::BroadcastOp>(condition))
      condition = narrow;
    auto compare = condition.getDefiningOp<nn::CompareOp>();
    return compare && compare.getPredicate() == predicate ? compare.getLhs() : Value();
  };
  Value x = compared(ofX.getCondition(), nn::Predicate::LT);
  Value y = compared(ofY.getCondition(), nn::Predicate::GT);
  return x && y ? arcTangent2(node, y, x) : Value();
}

/// The upper bound of logit(x, eps), which the nodes put in the place of NaN.
static Value readLogitBound(Node &node) {
  auto isBelow = node.input(0).getDefiningOp<nn::CompareOp>();
  return isBelow && isBelow.getPredicate() == nn::Predicate::LE
             ? bounded(node, node.input(1), node.input(2), nn::Predicate::GT)
             : Value();
}

/// The remainder with the sign of the divisor: x - floor(x / y) y loses its digits where the
/// quotient is large.
static Value readRemainder(Node &node) {
  Value y;
  auto product = m_Op<nn::MulOp>(m_Op<nn::FloorOp>(m_Any()), m_Any(&y));
  return matchPattern(node.input(1), product) ? floorRemainder(node, node.input(0), y) : Value();
}

/// floor(x / y) of the exact quotient, as PyTorch has it: 1 / 0.1 is below 10.
static Value readFloorDivide(Node &node) {
  auto quotient = node.input(0).getDefiningOp<nn::DivOp>();
  if (!quotient)
    return {};
  Value x = quotient.getLhs(), y = quotient.getRhs();
  Value rest = node.binary<nn::RemOp>(x, y), whole = node.div(node.sub(x, rest), y);
  Value isBelow = whole ? differsInSign(node, rest, y) : Value();
  whole = node.select(isBelow, node.sub(whole, 1), whole);
  Value low = node.floor(whole);
  Value isAbove = node.binary(node.sub(whole, low), 0.5, nn::Predicate::GT);
  Value rounded = node.select(isAbove, node.add(low, 1), low);
  Value byZero = node.binary(y, 0, nn::Predicate::EQ);
  return node.stopped(node.select(byZero, quotient.getResult(), rounded));
}

/// A norm of another order than 1 and 2: the root has the gradient 0 at 0, as rootOrZero.
static Value readNorm(Node &node) {
  Value sum = node.input(0);
  auto reshaped = sum.getDefiningOp<nn::ReshapeOp>();
  if (!(reshaped ? reshaped.getInput() : sum).getDefiningOp<nn::ReduceOp>())
    return {}; // the powers of the elements
  Value zero = node.like(sum, 0), isZero = node.binary(sum, zero, nn::Predicate::EQ);
  Value other = node.select(isZero, 1, sum);
  return node.select(isZero, zero, node.binary<nn::PowOp>(other, node.input(1)));
}

/// Whether a value is, but for its shape and factors, a mean of the squares of a difference.
static bool isOfSquaredDifferences(Value value) {
  constexpr int most = 8; // of moves, factors and the mean
  for (int i = 0; i < most && value && value.getDefiningOp(); ++i) {
    Operation *op = value.getDefiningOp();
    auto product = dyn_cast<nn::MulOp>(op);
    if (product && product.getLhs() == product.getRhs())
      return bool(product.getLhs().getDefiningOp<nn::SubOp>());
    if (!product && !isa<nn::DivOp, nn::BroadcastOp, nn::ReshapeOp, nn::ReduceOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// The root of a variance. PyTorch's std() and std_mean() are exported as one, and have the
/// gradient 0 where all elements are equal. The record of sqrt(var()), whose gradient is NaN there,
/// is the same.
static Value readDeviation(Node &node) {
  FxNode fx = readFxNode(node.proto);
  std::string of = fx.args.size() == 1 ? operationOf(fx.args[0]) : "";
  // With keepdim=True the variance is given its dimension back in between.
  bool isOfVariance =
      of == "var" || (of == "broadcast_in_dim" && isOfSquaredDifferences(node.input(0)));
  return isOfVariance && node.input(0).getDefiningOp() ? rootOrZero(node, node.input(0)) : Value();
}

namespace {

/// An operation, the operator of its last node, and the function that reads it there.
struct Whole {
  llvm::StringLiteral kind, op;
  int operands;
  /// Whether the nodes stand for nothing else, so that no record is needed.
  bool isByForm;
  Value (*read)(Node &);
};

} // namespace

/// In a file without a record, the first row whose nodes fit is used.
static constexpr Whole kWholes[] = {
    {"log_sigmoid", "Log", 1, true, readLogSigmoid},
    {"", "Log", 1, true, readLogOneMinusSigmoid},
    {"logaddexp", "Log", 1, true, readLogAddExp},
    {"log1p", "Log", 1, true, readLog1p},
    {"", "Log", 1, true, readLogOneMinus},
    {"expm1", "Sub", 2, true, readExpm1},
    {"erfc", "Sub", 2, true, readErfc},
    {"special_erfc", "Sub", 2, true, readErfc},
    {"special_erfcx", "Mul", 2, true, readErfcx},
    {"where", "Where", 3, true, readLogNdtr},
    {"logaddexp2", "Div", 2, false, readLogAddExp2},
    {"logcumsumexp", "Add", 2, false, readLogCumSumExp},
    {"_logcumsumexp", "Add", 2, false, readLogCumSumExp},
    {"xlogy", "Where", 3, false, readXLogY},
    {"special_xlogy", "Where", 3, false, readXLogY},
    {"sinc", "Where", 3, false, readSinc},
    {"special_sinc", "Where", 3, false, readSinc},
    {"atan2", "Where", 3, false, readAtan2},
    {"logit", "Where", 3, false, readLogitBound},
    {"special_logit", "Where", 3, false, readLogitBound},
    {"remainder", "Sub", 2, false, readRemainder},
    {"floor_divide", "Floor", 1, false, readFloorDivide},
    {"div", "Floor", 1, false, readFloorDivide},
    {"linalg_vector_norm", "Pow", 2, false, readNorm},
    {"sqrt", "Sqrt", 1, false, readDeviation},
};

Value onnx::wholeOperation(Node &node) {
  StringRef op = node.proto.op_type();
  if (!node.proto.domain().empty() ||
      llvm::none_of(kWholes, [&](const Whole &whole) { return whole.op == op; }))
    return {};
  FxNode fx = readFxNode(node.proto);
  StringRef kind = words::kindOf(fx.target);
  for (const Whole &whole : kWholes) {
    if (whole.op != op || (kind.empty() ? !whole.isByForm : whole.kind != kind) ||
        node.numInputs() != whole.operands)
      continue;
    if (failed(node.require(whole.operands)) || !Node::hasFloats(node.input(whole.operands - 1)))
      return {};
    if (Value value = whole.read(node); value || node.hasFailed())
      return value;
  }
  return {};
}
