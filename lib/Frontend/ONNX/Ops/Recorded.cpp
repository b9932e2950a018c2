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
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// The operands of a node that have a form.
struct Form {
  Node &node;
  llvm::StringMap<Value> names = {};

  Tensor operator[](StringRef name) const { return Tensor(node, names.lookup(name)); }
  Tensor x() const { return (*this)["x"]; }
  Tensor y() const { return (*this)["y"]; }

  /// Whether a value has the form at the front of `text`, which is removed: an op of nn with its
  /// operands, a whole number, the name of one value, or "_", any value.
  bool match(Value value, StringRef &text) {
    text = text.ltrim(", ");
    StringRef word = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    text = text.drop_front(word.size());
    if (word.empty())
      return false;
    int64_t number;
    if (!word.getAsInteger(10, number))
      return node.scalarConstant(value) == double(number);
    if (!text.consume_front("("))
      return word == "_" || names.try_emplace(word, value).first->second == value;
    Operation *op = value.getDefiningOp();
    return op && op->getName().getStringRef() == ("nn." + word).str() &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return match(operand, text); }) &&
           text.consume_front(")");
  }
};

} // namespace

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

// Operations, by their last node, whose operands have the form. Null if other nodes differ.

/// The logarithm of the normal distribution, log_ndtr(x). Each branch gets operands of its own: at
/// those of the other one it overflows, and the gradient of what is not chosen would be NaN. With
/// u = x / sqrt(2) the nodes are
///   x < 1 ? log(erfcx(-u) / 2) - u^2 : log1p(-erfc(u) / 2)
static Tensor readLogNdtr(Form &form) {
  Tensor isLow = form.node.input(0), u = form["u"];
  if (isLow.getDefiningOp<nn::CompareOp>().getPredicate() != nn::Predicate::LT)
    return {};
  Tensor zero = u.like(0), two = u.like(2);
  Tensor ofLow = select(isLow, u, zero), ofHigh = select(isLow, zero, u);
  Tensor scaled = unary<nn::ErfcxOp>(-ofLow);
  Tensor low = log(scaled / two) - ofLow * ofLow;
  Tensor upper = -unary<nn::ErfcOp>(ofHigh);
  return select(isLow, low, log1p(upper / two));
}

/// Sums of exponentials that end at each element. Each pass adds those that end `step` elements
/// before; all are relative to their own largest element.
static Tensor readLogCumSumExp(Form &form) {
  Node &node = form.node;
  Tensor y = form.y();
  auto scan = inside<nn::LogOp>(node.input(0)).getDefiningOp<nn::CumsumOp>();
  if (scan.getExclusive() || scan.getReverse())
    return {};
  auto type = y.type();
  int64_t dim = scan.getDim(), size = type.getDimSize(dim);
  for (int64_t step = 1; y && step < size; step *= 2) {
    Tensor none = node.constant(type.clone(withSize(type.getShape(), dim, step)),
                                -std::numeric_limits<double>::infinity());
    y = logAddExp(y, joined({none, y.part(dim, 0, size - step)}, dim));
  }
  return y;
}

/// x log(y) with the value 0 where x is 0: x is chosen there. The exporter may have folded the
/// condition, although x is a parameter. If y is a constant, its logarithm was computed before.
static Tensor readXLogY(Form &form) {
  Node &node = form.node;
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
static Tensor readSinc(Form &form) {
  Tensor x = form.x();
  Tensor isTiny = abs(x) <= 1e-30;
  Tensor other = select(isTiny, 1, x);
  return select(isTiny, 1, sin(other) / other);
}

/// The angle of a point: the nodes divide by 0 on an axis, and have the wrong sign on the negative
/// part of x. They choose by the sign of x, then by that of y.
static Tensor readAtan2(Form &form) {
  auto compared = [&](Tensor condition, nn::Predicate predicate) {
    if (Tensor narrow = inside<nn::BroadcastOp>(condition))
      condition = narrow;
    auto compare = condition.getDefiningOp<nn::CompareOp>();
    return compare && compare.getPredicate() == predicate ? Tensor(form.node, compare.getLhs())
                                                          : Tensor();
  };
  Tensor x = compared(form["ofX"], nn::Predicate::LT);
  Tensor y = compared(form["ofY"], nn::Predicate::GT);
  return x && y ? arcTangent2(y, x) : Tensor();
}

/// The upper bound of logit(x, eps), which the nodes put in the place of NaN.
static Tensor readLogitBound(Form &form) {
  auto isBelow = form.node.input(0).getDefiningOp<nn::CompareOp>();
  return isBelow.getPredicate() == nn::Predicate::LE
             ? bounded(form.x(), form["bound"], nn::Predicate::GT)
             : Tensor();
}

/// floor(x / y) of the exact quotient, as PyTorch has it: 1 / 0.1 is below 10.
static Tensor readFloorDivide(Form &form) {
  Tensor x = form.x(), y = form.y();
  Tensor rest = binary<nn::RemOp>(x, y), whole = (x - rest) / y;
  whole = select(differsInSign(rest, y), whole - 1, whole);
  Tensor low = floor(whole);
  Tensor isAbove = whole - low > 0.5;
  Tensor rounded = select(isAbove, low + 1, low);
  Tensor byZero = equal(y, 0);
  return stopped(select(byZero, form.node.input(0), rounded));
}

/// A norm of another order than 1 and 2: the root has the gradient 0 at 0, as rootOrZero.
static Tensor readNorm(Form &form) {
  Tensor sum = form.x();
  auto reshaped = sum.getDefiningOp<nn::ReshapeOp>();
  if (!(reshaped ? Value(reshaped.getInput()) : sum).getDefiningOp<nn::ReduceOp>())
    return {}; // the powers of the elements
  Tensor zero = sum.like(0), isZero = equal(sum, zero);
  Tensor other = select(isZero, 1, sum);
  return select(isZero, zero, binary<nn::PowOp>(other, form.y()));
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
static Tensor readDeviation(Form &form) {
  FxNode fx = readFxNode(form.node.proto);
  Tensor x = form.x();
  std::string of = fx.args.size() == 1 ? operationOf(fx.args[0]) : "";
  // With keepdim=True the variance is given its dimension back in between.
  bool isOfVariance = of == "var" || (of == "broadcast_in_dim" && isOfSquaredDifferences(x));
  return isOfVariance && x.getDefiningOp() ? rootOrZero(x) : Tensor();
}

namespace {

/// Operations, the operator of their last node, and what it becomes.
struct Whole {
  llvm::StringLiteral kinds, op;
  int operands;
  /// Whether the nodes stand for nothing else, so that no record is needed.
  bool isByForm;
  llvm::StringLiteral form; // of the operands
  Tensor (*read)(Form &);
};

} // namespace

static Tensor readLogSigmoid(Form &form) { return logSigmoid(form.x()); }
static Tensor readLog1p(Form &form) { return log1p(form.x()); }
static Tensor readErfcx(Form &form) { return unary<nn::ErfcxOp>(form.x()); }

/// In a file without a record, the first row whose nodes fit is used.
static constexpr Whole kWholes[] = {
    {"log_sigmoid", "Log", 1, true, "sigmoid(x)", readLogSigmoid},
    // As the exporter of TorchScript writes a binary cross-entropy of logits.
    {"", "Log", 1, true, "sub(1, sigmoid(x))", [](Form &form) { return logSigmoid(-form.x()); }},
    {"logaddexp", "Log", 1, true, "add(exp(x), exp(y))",
     [](Form &form) { return logAddExp(form.x(), form.y()); }},
    {"log1p", "Log", 1, true, "add(x, 1)", readLog1p},
    {"log1p", "Log", 1, true, "add(1, x)", readLog1p},
    {"", "Log", 1, true, "sub(1, x)", [](Form &form) { return log1p(-form.x()); }},
    {"expm1", "Sub", 2, true, "exp(x), 1", [](Form &form) { return expm1(form.x()); }},
    {"erfc special_erfc", "Sub", 2, true, "1, erf(x)",
     [](Form &form) { return unary<nn::ErfcOp>(form.x()); }},
    {"special_erfcx", "Mul", 2, true, "exp(mul(x, x)), erfc(x)", readErfcx},
    {"special_erfcx", "Mul", 2, true, "exp(mul(x, x)), sub(1, erf(x))", readErfcx},
    {"where", "Where", 3, true,
     "compare(_, 1), sub(log(div(erfcx(neg(u)), 2)), mul(u, u)), log1p(div(neg(erfc(u)), 2))",
     readLogNdtr},
    // log(2^x + 2^y) / log(2)
    {"logaddexp2", "Div", 2, false, "log(add(pow(2, x), pow(2, y))), _",
     [](Form &form) { return logAddExp(form.x(), form.y(), std::log(2.0)); }},
    {"logcumsumexp _logcumsumexp", "Add", 2, false, "log(cumsum(exp(sub(y, _)))), _",
     readLogCumSumExp},
    {"xlogy special_xlogy", "Where", 3, false, "_, _, _", readXLogY},
    {"sinc special_sinc", "Where", 3, false, "compare(_, _), _, div(sin(x), x)", readSinc},
    {"atan2", "Where", 3, false, "is_nan(_), _, select(ofX, select(ofY, _, _), _)", readAtan2},
    {"logit special_logit", "Where", 3, false, "compare(_, _), x, bound", readLogitBound},
    // With the sign of the divisor: x - floor(x / y) y loses its digits where the quotient is
    // large.
    {"remainder", "Sub", 2, false, "x, mul(floor(_), y)",
     [](Form &form) { return floorRemainder(form.x(), form.y()); }},
    {"floor_divide div", "Floor", 1, false, "div(x, y)", readFloorDivide},
    {"linalg_vector_norm", "Pow", 2, false, "x, y", readNorm},
    {"sqrt", "Sqrt", 1, false, "x", readDeviation},
};

Tensor onnx::wholeOperation(Node &node) {
  StringRef op = node.proto.op_type();
  if (!node.proto.domain().empty() ||
      llvm::none_of(kWholes, [&](const Whole &whole) { return whole.op == op; }))
    return {};
  FxNode fx = readFxNode(node.proto);
  StringRef kind = words::kindOf(fx.target);
  for (const Whole &whole : kWholes) {
    if (whole.op != op ||
        (kind.empty() ? !whole.isByForm
                      : !llvm::is_contained(llvm::split(whole.kinds, ' '), kind)) ||
        node.numInputs() != whole.operands)
      continue;
    if (failed(node.require(whole.operands)) || !node.input(whole.operands - 1).hasFloats())
      return {};
    Form form{node};
    StringRef text = whole.form;
    bool fits = llvm::all_of(llvm::seq(0, whole.operands),
                             [&](int i) { return form.match(node.input(i), text); });
    if (Tensor value = fits ? whole.read(form) : Tensor(); value || node.hasFailed())
      return value;
  }
  return {};
}
