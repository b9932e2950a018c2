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
template <typename OpT> static Tensor inside(Tensor value) {
  auto op = value ? value.getDefiningOp<OpT>() : OpT();
  return op ? Tensor(value.node(), op.getInput()) : Tensor();
}

/// log(1 + exp(-|x|)), which does not overflow.
static Tensor logOnePlusExp(Tensor x) { return log1p(exp(-abs(x))); }

Tensor onnx::softplus(Tensor x) {
  Tensor zero = x.like(0);
  return max(x, zero) + logOnePlusExp(x);
}

/// log(1 / (1 + exp(-x)))
static Tensor logSigmoid(Tensor x) {
  Tensor zero = x.like(0);
  return min(x, zero) - logOnePlusExp(x);
}

/// log(base^a + base^b) / log(base) with scale = log(base). Where both are equal, infinite ones
/// included, each gets half of the gradient.
static Tensor logAddExp(Tensor a, Tensor b, double scale = 1) {
  Tensor larger = max(a, b), isEqual = equal(a, b);
  Tensor distance = select(isEqual, 0, a - b);
  Tensor rest = logOnePlusExp(scaled(distance, scale));
  return larger + (scale == 1 ? rest : rest / scale);
}

//===----------------------------------------------------------------------===//
// Operations, by their last node. Null if the nodes are others.
//===----------------------------------------------------------------------===//

static Tensor readExpm1(Node &node) {
  Tensor x(node);
  return operandsMatch(node, m_Op<nn::ExpOp>(m_Any(&x)), IsNumber{node, 1}) ? expm1(x) : Tensor();
}

static Tensor readLog1p(Node &node) {
  IsNumber one{node, 1};
  Tensor x(node);
  return operandsMatch(node, m_Op<nn::AddOp>(m_Any(&x), one)) ||
                 operandsMatch(node, m_Op<nn::AddOp>(one, m_Any(&x)))
             ? log1p(x)
             : Tensor();
}

static Tensor readErfc(Node &node) {
  Tensor x(node);
  return operandsMatch(node, IsNumber{node, 1}, m_Op<nn::ErfOp>(m_Any(&x))) ? unary<nn::ErfcOp>(x)
                                                                            : Tensor();
}

/// exp(x^2) (1 - erf(x))
static Tensor readErfcx(Node &node) {
  Tensor x(node), y(node);
  if (!operandsMatch(node, m_Op<nn::ExpOp>(m_Op<nn::MulOp>(m_Any(&x), m_Any(&y)))) || x != y)
    return {};
  auto erf = m_Op<nn::ErfOp>(m_Val(x));
  bool fits = matchPattern(node.input(1), m_Op<nn::ErfcOp>(m_Val(x))) ||
              matchPattern(node.input(1), m_Op<nn::SubOp>(IsNumber{node, 1}, erf));
  return fits ? unary<nn::ErfcxOp>(x) : Tensor();
}

/// The logarithm of the normal distribution, log_ndtr(x). Each branch gets operands of its own: at
/// those of the other one it overflows, and the gradient of what is not chosen would be NaN. With
/// u = x / sqrt(2) the nodes are
///   x < 1 ? log(erfcx(-u) / 2) - u^2 : log1p(-erfc(u) / 2)
static Tensor readLogNdtr(Node &node) {
  IsNumber isTwo{node, 2};
  Tensor u(node), left(node), right(node);
  auto ofMinus = m_Op<nn::ErfcxOp>(m_Op<nn::NegOp>(m_Any(&u)));
  if (!operandsMatch(node, m_Op<nn::CompareOp>(m_Any(), IsNumber{node, 1}),
                     m_Op<nn::SubOp>(m_Op<nn::LogOp>(m_Op<nn::DivOp>(ofMinus, isTwo)),
                                     m_Op<nn::MulOp>(m_Any(&left), m_Any(&right)))) ||
      left != u || right != u)
    return {};
  Tensor isLow = node.input(0);
  auto minusErfc = m_Op<nn::NegOp>(m_Op<nn::ErfcOp>(m_Val(u)));
  if (isLow.getDefiningOp<nn::CompareOp>().getPredicate() != nn::Predicate::LT ||
      !matchPattern(node.input(2), m_Op<nn::Log1pOp>(m_Op<nn::DivOp>(minusErfc, isTwo))))
    return {};
  Tensor zero = u.like(0), two = u.like(2);
  Tensor ofLow = select(isLow, u, zero), ofHigh = select(isLow, zero, u);
  Tensor scaled = unary<nn::ErfcxOp>(-ofLow);
  Tensor low = log(scaled / two) - ofLow * ofLow;
  Tensor upper = -unary<nn::ErfcOp>(ofHigh);
  return select(isLow, low, log1p(upper / two));
}

static Tensor readLogSigmoid(Node &node) {
  return logSigmoid(inside<nn::SigmoidOp>(node.input(0)));
}

/// Returns what operand 0, a difference, subtracts from 1; null if it is no such difference.
static Tensor subtractedFromOne(Node &node) {
  Tensor x(node);
  return operandsMatch(node, m_Op<nn::SubOp>(IsNumber{node, 1}, m_Any(&x))) ? x : Tensor();
}

/// log(1 - sigmoid(x)), as the exporter of TorchScript writes a binary cross-entropy of logits.
static Tensor readLogOneMinusSigmoid(Node &node) {
  return logSigmoid(-inside<nn::SigmoidOp>(subtractedFromOne(node)));
}

static Tensor readLogOneMinus(Node &node) { return log1p(-subtractedFromOne(node)); }

static Tensor readLogAddExp(Node &node) {
  Tensor a(node), b(node);
  auto sum = m_Op<nn::AddOp>(m_Op<nn::ExpOp>(m_Any(&a)), m_Op<nn::ExpOp>(m_Any(&b)));
  return operandsMatch(node, sum) ? logAddExp(a, b) : Tensor();
}

/// log(2^a + 2^b) / log(2)
static Tensor readLogAddExp2(Node &node) {
  IsNumber two{node, 2};
  Tensor a(node), b(node);
  auto sum = m_Op<nn::AddOp>(m_Op<nn::PowOp>(two, m_Any(&a)), m_Op<nn::PowOp>(two, m_Any(&b)));
  return operandsMatch(node, m_Op<nn::LogOp>(sum)) ? logAddExp(a, b, std::log(2.0)) : Tensor();
}

/// Sums of exponentials that end at each element. Each pass adds those that end `step` elements
/// before; all are relative to their own largest element.
static Tensor readLogCumSumExp(Node &node) {
  Tensor y(node);
  auto shifted = m_Op<nn::SubOp>(m_Any(&y), m_Any());
  if (!operandsMatch(node, m_Op<nn::LogOp>(m_Op<nn::CumsumOp>(m_Op<nn::ExpOp>(shifted)))))
    return {};
  auto scan = inside<nn::LogOp>(node.input(0)).getDefiningOp<nn::CumsumOp>();
  if (scan.getExclusive() || scan.getReverse())
    return {};
  auto type = y.type();
  int64_t dim = scan.getDim(), size = type.getDimSize(dim);
  for (int64_t step = 1; y && step < size; step *= 2) {
    Tensor none = node.constant(type.clone(withSize(type.getShape(), dim, step)),
                                -std::numeric_limits<double>::infinity());
    y = logAddExp(y, node.joined({none, y.part(dim, 0, size - step)}, dim));
  }
  return y;
}

/// x log(y) with the value 0 where x is 0: x is chosen there. The exporter may have folded the
/// condition, although x is a parameter. If y is a constant, its logarithm was computed before.
static Tensor readXLogY(Node &node) {
  if (node.input(0).getDefiningOp<nn::IsNanOp>())
    return {}; // the choice for NaN, which the last node reads
  Tensor x = node.input(1), product = node.input(2);
  if (auto choice = product.getDefiningOp<nn::SelectOp>())
    product = Tensor(node, choice.getOnFalse());
  auto factors = product.getDefiningOp<nn::MulOp>();
  Tensor log(node, factors ? factors.getRhs() : Value());
  Tensor factor(node, factors ? factors.getLhs() : Value());
  if (Tensor narrow = inside<nn::BroadcastOp>(factor))
    factor = narrow;
  if (factor != x && node.building.constantOf(x))
    return {}; // the choice for NaN of a constant y, or one for x that has no gradient
  if (factor != x)
    log = {};
  if (Tensor y = inside<nn::LogOp>(log))
    return binary<nn::XLogYOp>(x, y);
  DenseElementsAttr known = log ? node.building.constantOf(log) : DenseElementsAttr();
  if (known && isa<FloatType>(known.getElementType()) &&
      llvm::all_of(known.getValues<APFloat>(),
                   [](const APFloat &number) { return number.isFinite(); }))
    return x * log;
  return node.error(
      "is one of the nodes of aten.xlogy, but they are not those that exporters up to "
      "torch 2.15 write, and the derivative where the first operand is 0 would be "
      "wrong. Export with shale.export, or with torch.onnx.export(..., optimize=False), or write the model "
      "with x * torch.log(y) if x is never 0");
}

/// sin(pi x) / (pi x), with the value 1 and the derivative 0 at 0, and where 1 / x may overflow.
static Tensor readSinc(Node &node) {
  Tensor x(node), divisor(node);
  auto quotient = m_Op<nn::DivOp>(m_Op<nn::SinOp>(m_Any(&x)), m_Any(&divisor));
  if (!node.input(0).getDefiningOp<nn::CompareOp>() || !matchPattern(node.input(2), quotient) ||
      x != divisor)
    return {};
  Tensor isTiny = abs(x) <= 1e-30;
  Tensor other = select(isTiny, 1, x);
  return select(isTiny, 1, sin(other) / other);
}

/// The angle of a point: the nodes divide by 0 on an axis, and have the wrong sign on the negative
/// part of x. They choose by the sign of x, then by that of y.
static Tensor readAtan2(Node &node) {
  auto ofX = node.input(2).getDefiningOp<nn::SelectOp>();
  auto ofY = ofX ? ofX.getOnTrue().getDefiningOp<nn::SelectOp>() : nn::SelectOp();
  if (!ofY || !node.input(0).getDefiningOp<nn::IsNanOp>())
    return {};
  auto compared = [&](Value value, nn::Predicate predicate) {
    Tensor condition(node, value);
    if (Tensor narrow = inside<nn::BroadcastOp>(condition))
      condition = narrow;
    auto compare = condition.getDefiningOp<nn::CompareOp>();
    return compare && compare.getPredicate() == predicate ? Tensor(node, compare.getLhs())
                                                          : Tensor();
  };
  Tensor x = compared(ofX.getCondition(), nn::Predicate::LT);
  Tensor y = compared(ofY.getCondition(), nn::Predicate::GT);
  return x && y ? arcTangent2(y, x) : Tensor();
}

/// The upper bound of logit(x, eps), which the nodes put in the place of NaN.
static Tensor readLogitBound(Node &node) {
  auto isBelow = node.input(0).getDefiningOp<nn::CompareOp>();
  return isBelow && isBelow.getPredicate() == nn::Predicate::LE
             ? bounded(node.input(1), node.input(2), nn::Predicate::GT)
             : Tensor();
}

/// The remainder with the sign of the divisor: x - floor(x / y) y loses its digits where the
/// quotient is large.
static Tensor readRemainder(Node &node) {
  Tensor y(node);
  auto product = m_Op<nn::MulOp>(m_Op<nn::FloorOp>(m_Any()), m_Any(&y));
  return matchPattern(node.input(1), product) ? floorRemainder(node.input(0), y) : Tensor();
}

/// floor(x / y) of the exact quotient, as PyTorch has it: 1 / 0.1 is below 10.
static Tensor readFloorDivide(Node &node) {
  auto quotient = node.input(0).getDefiningOp<nn::DivOp>();
  if (!quotient)
    return {};
  Tensor x(node, quotient.getLhs()), y(node, quotient.getRhs());
  Tensor rest = binary<nn::RemOp>(x, y), whole = (x - rest) / y;
  whole = select(differsInSign(rest, y), whole - 1, whole);
  Tensor low = floor(whole);
  Tensor isAbove = whole - low > 0.5;
  Tensor rounded = select(isAbove, low + 1, low);
  Tensor byZero = equal(y, 0);
  return stopped(select(byZero, node.input(0), rounded));
}

/// A norm of another order than 1 and 2: the root has the gradient 0 at 0, as rootOrZero.
static Tensor readNorm(Node &node) {
  Tensor sum = node.input(0);
  auto reshaped = sum.getDefiningOp<nn::ReshapeOp>();
  if (!(reshaped ? Value(reshaped.getInput()) : sum).getDefiningOp<nn::ReduceOp>())
    return {}; // the powers of the elements
  Tensor zero = sum.like(0), isZero = equal(sum, zero);
  Tensor other = select(isZero, 1, sum);
  return select(isZero, zero, binary<nn::PowOp>(other, node.input(1)));
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
static Tensor readDeviation(Node &node) {
  FxNode fx = readFxNode(node.proto);
  std::string of = fx.args.size() == 1 ? operationOf(fx.args[0]) : "";
  // With keepdim=True the variance is given its dimension back in between.
  bool isOfVariance =
      of == "var" || (of == "broadcast_in_dim" && isOfSquaredDifferences(node.input(0)));
  return isOfVariance && node.input(0).getDefiningOp() ? rootOrZero(node.input(0)) : Tensor();
}

namespace {

/// An operation, the operator of its last node, and the function that reads it there.
struct Whole {
  llvm::StringLiteral kind, op;
  int operands;
  /// Whether the nodes stand for nothing else, so that no record is needed.
  bool isByForm;
  Tensor (*read)(Node &);
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

Tensor onnx::wholeOperation(Node &node) {
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
    if (failed(node.require(whole.operands)) || !node.input(whole.operands - 1).hasFloats())
      return {};
    if (Tensor value = whole.read(node); value || node.hasFailed())
      return value;
  }
  return {};
}
