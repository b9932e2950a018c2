//===- Loss.cpp - Loss ops of the graph -----------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Support/Remarks.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Turns scores [N, C, d...], with the classes in dimension 1, into rows
/// [N * d, C].
static Value classesLast(Node &node, Value scores) {
  auto type = Node::type(scores);
  SmallVector<int64_t> perm = {0};
  for (int64_t i = 2; i < type.getRank(); ++i)
    perm.push_back(i);
  perm.push_back(1);
  int64_t classes = type.getDimSize(1);
  return node.reshape(node.transpose(scores, perm),
                      {type.getNumElements() / std::max<int64_t>(classes, 1), classes});
}

/// Turns rows [N * d, C] into scores of the shape [N, C, d...].
static Value classesSecond(Node &node, Value rows, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> last(shape), perm = {0, int64_t(shape.size()) - 1};
  last.erase(last.begin() + 1);
  last.push_back(shape[1]);
  for (int64_t i = 1; i + 1 < int64_t(shape.size()); ++i)
    perm.push_back(i);
  return node.transpose(node.reshape(rows, last), perm);
}

namespace {
/// The losses of rows: -weight[label] * row[label], and weight[label]; zero where the label is
/// ignored.
struct RowLosses {
  Value losses, weights; // [N]
};
} // namespace

/// Picks the losses of rows of log-probabilities [N, C]; labels [N]; `weights` [C] or null: all 1.
/// `smoothing` e: a row's loss is 1 - e of its own and e of the mean of the losses of all classes.
static RowLosses pickClasses(Node &node, Value rows, Value labels, int64_t ignore, Value weights,
                             double smoothing) {
  auto type = Node::type(rows), ids = Node::type(labels);
  Value classes = node.create<nn::IotaOp>(
      RankedTensorType::get(type.getShape(), ids.getElementType()), int64_t(1));
  Value column = node.reshape(labels, {type.getDimSize(0), 1});
  Value wide = column ? node.broadcast(column, type.getShape()) : Value();
  Value isLabel = wide ? node.binary(wide, classes, nn::Predicate::EQ) : Value();
  Value counts = node.binary(labels, node.constant(ids, double(ignore)), nn::Predicate::NE);
  if (!isLabel || !counts)
    return {};
  auto floats = RankedTensorType::get({type.getDimSize(0)}, type.getElementType());
  Value zeros = node.constant(type, 0), zero = node.constant(floats, 0);
  auto pick = [&](Value from) -> Value {
    Value picked = from ? node.create<nn::SelectOp>(type, isLabel, from, zeros) : Value();
    picked = node.reduce(nn::ReduceKind::Sum, picked, {1}, false);
    return picked ? node.create<nn::SelectOp>(floats, counts, picked, zero) : Value();
  };
  RowLosses result;
  if (weights) {
    Value table = node.broadcast(node.reshape(weights, {1, type.getDimSize(1)}), type.getShape());
    result.weights = pick(table);
    rows = table ? node.binary<nn::MulOp>(rows, table) : Value();
  } else {
    result.weights = node.create<nn::SelectOp>(floats, counts, node.constant(floats, 1), zero);
  }
  Value own = pick(rows);
  if (smoothing != 0) {
    Value sum = node.reduce(nn::ReduceKind::Sum, rows, {1}, false);
    Value all = sum ? node.create<nn::SelectOp>(floats, counts, sum, zero) : Value();
    double classes = std::max<int64_t>(type.getDimSize(1), 1);
    own = own ? node.binary<nn::MulOp>(own, node.constant(floats, 1 - smoothing)) : Value();
    all = all ? node.binary<nn::MulOp>(all, node.constant(floats, smoothing / classes)) : Value();
    own = own && all ? node.add(own, all) : Value();
  }
  result.losses = node.unary<nn::NegOp>(own);
  return result;
}

/// Builds sum / weight, where a weight of zero counts as one.
static Value weightedMean(Node &node, const LossParts &parts) {
  auto scalar = Node::type(parts.sum);
  Value isPositive = node.binary(parts.count, node.constant(scalar, 0), nn::Predicate::GT);
  Value divisor = isPositive ? node.create<nn::SelectOp>(scalar, isPositive, parts.count,
                                                         node.constant(scalar, 1))
                             : Value();
  return divisor ? node.binary<nn::DivOp>(parts.sum, divisor) : Value();
}

/// PyTorch takes the scores of a single example, too.
static LogicalResult requireBatch(Node &node, RankedTensorType type) {
  if (type.getRank() >= 2)
    return success();
  return node.error("scores " + Node::name(type) +
                    " have no batch: pass those of one example as [1, classes], by unsqueeze(0) of "
                    "the scores and of the target");
}

/// Checks that operand 2, if it is there, has a weight for each class of scores [N, C, d..].
static LogicalResult checkWeights(Node &node, RankedTensorType type) {
  Value weights = node.input(2);
  if (!weights ||
      Node::type(weights) == RankedTensorType::get({type.getDimSize(1)}, type.getElementType()))
    return success();
  return node.error("weights " + Node::name(weights.getType()) + " do not fit the " +
                    Twine(type.getDimSize(1)) + " classes of " + Node::name(type));
}

static LogicalResult readReduction(Node &node, std::string &reduction) {
  reduction = node.stringAttr("reduction", "mean");
  if (reduction == "mean" || reduction == "sum" || reduction == "none")
    return success();
  return node.error("reduction '" + displayName(reduction) + "' is not one of none, sum, mean");
}

/// Reads the label smoothing, which only the record of the operation has.
static LogicalResult readSmoothing(Node &node, double &smoothing) {
  FxNode fx = readFxNode(node.proto);
  smoothing = 0;
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    smoothing = numberArgument(fx, 5, "label_smoothing").value_or(0);
  if (!(smoothing >= 0 && smoothing <= 1))
    return node.error("label_smoothing must be from 0 to 1; got " + shortest(smoothing));
  if (smoothing != 0)
    emitDecision(node.loc, "import",
                 "label_smoothing=" + shortest(smoothing) + " is restored: the export left it out");
  return success();
}

/// Cross-entropy with a probability for each class as the target, of the scores' shape. ONNX has
/// none; PyTorch's exporter writes it as the operator for labels, and the mean is over the rows.
static LogicalResult importProbabilities(Node &node) {
  Value scores = node.input(0);
  auto type = Node::type(scores);
  std::string reduction;
  double smoothing;
  if (failed(requireBatch(node, type)))
    return failure();
  if (!isa<FloatType>(type.getElementType()) || node.isRead(1))
    return node.error("scores " + Node::name(type) + " and probabilities do not fit");
  if (failed(checkWeights(node, type)) || failed(readReduction(node, reduction)) ||
      failed(readSmoothing(node, smoothing)))
    return failure();
  node.intAttr("ignore_index", 0); // of labels
  Value rows = classesLast(node, scores), targets = classesLast(node, node.input(1));
  if (!rows || !targets)
    return failure();
  auto rowsType = Node::type(rows);
  double classes = std::max<int64_t>(rowsType.getDimSize(1), 1);
  if (smoothing != 0) {
    targets = node.binary<nn::MulOp>(targets, node.constant(rowsType, 1 - smoothing));
    targets = targets ? node.add(targets, node.constant(rowsType, smoothing / classes)) : Value();
  }
  Value losses = node.binary<nn::MulOp>(targets, logSoftmax(node, rows));
  if (Value weights = node.input(2))
    losses = losses ? node.binary<nn::MulOp>(losses, weights) : Value();
  losses = losses ? node.unary<nn::NegOp>(losses) : Value();
  losses = losses ? node.reduce(nn::ReduceKind::Sum, losses, {1}, false) : Value();
  if (!losses)
    return failure();
  if (reduction == "none") {
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + 1);
    node.set(0, node.reshape(losses, shape));
    return success();
  }
  Value sum = node.reduce(nn::ReduceKind::Sum, losses, {0}, false);
  double count = std::max<int64_t>(rowsType.getDimSize(0), 1);
  node.set(0, reduction == "sum" || !sum
                  ? sum
                  : node.binary<nn::DivOp>(sum, node.constant(Node::type(sum), count)));
  return success();
}

/// `logits` are logits, or with `isLog` log-probabilities. The node's second result are the
/// log-probabilities.
static LogicalResult importLoss(Node &node, Value logits, bool isLog = false) {
  auto type = Node::type(logits), ids = Node::type(node.input(1));
  SmallVector<int64_t> labeled(type.getShape());
  if (labeled.size() > 1)
    labeled.erase(labeled.begin() + 1);
  if (failed(requireBatch(node, type)))
    return failure();
  if (ids.getShape() != ArrayRef<int64_t>(labeled) || !isa<FloatType>(type.getElementType()) ||
      (!ids.getElementType().isInteger(64) && !ids.getElementType().isInteger(32)))
    return node.error("scores " + Node::name(type) + " and labels " + Node::name(ids) +
                      " do not fit");
  Value weights = node.input(2);
  std::string reduction;
  if (failed(checkWeights(node, type)) || failed(readReduction(node, reduction)))
    return failure();
  // Without the attribute no label is ignored: the smallest integer is never a
  // label.
  int64_t ignore =
      node.intAttr("ignore_index", ids.getElementType().isInteger(32) ? INT32_MIN : INT64_MIN);
  Value rows = classesLast(node, logits),
        labels = node.reshape(node.input(1), {ids.getNumElements()});
  if (!rows || !labels)
    return failure();
  double smoothing;
  if (failed(readSmoothing(node, smoothing)))
    return failure();
  bool fused = !isLog && !weights && reduction != "none" && smoothing == 0;
  Value logRows = isLog ? rows : fused && !node.wants(1) ? Value() : logSoftmax(node, rows);
  if (node.wants(1)) // absent from a NegativeLogLikelihoodLoss
    node.set(1, logRows ? classesSecond(node, logRows, type.getShape()) : Value());
  LossParts parts;
  if (fused) {
    parts = buildCrossEntropy(node.builder, node.loc, rows, labels, ignore);
  } else if (logRows) {
    RowLosses picked = pickClasses(node, logRows, labels, ignore, weights, smoothing);
    if (reduction == "none") {
      node.set(0, picked.losses ? node.reshape(picked.losses, ids.getShape()) : Value());
      return success();
    }
    parts.sum = node.reduce(nn::ReduceKind::Sum, picked.losses, {0}, false);
    parts.count = node.reduce(nn::ReduceKind::Sum, picked.weights, {0}, false);
    parts.labels = labels;
    parts.logits = rows;
  }
  if (!parts.sum || !parts.count)
    return failure();
  Value loss = parts.sum;
  if (reduction == "mean")
    loss = weights ? weightedMean(node, parts) : buildMean(node.builder, node.loc, parts);
  else
    parts.count = node.constant(Node::type(loss), 1);
  if (!loss)
    return failure();
  node.building.lossParts[loss] = parts;
  node.set(0, loss);
  return success();
}

static LogicalResult importSoftmaxCrossEntropy(Node &node) {
  if (failed(node.require(2)))
    return failure();
  bool isOfProbabilities = node.input(0).getType() == node.input(1).getType() &&
                           StringRef(node.tracedAs()).starts_with(words::kCrossEntropy);
  return isOfProbabilities ? importProbabilities(node) : importLoss(node, node.input(0));
}

static LogicalResult importNegativeLogLikelihood(Node &node) {
  if (failed(node.require(2)))
    return failure();
  // Rows of log-probabilities from a LogSoftmax over the classes become a cross-entropy of its
  // operand.
  Value scores = node.input(0), made = scores;
  auto type = Node::type(scores);
  while (auto reshape = made.getDefiningOp<nn::ReshapeOp>()) {
    auto from = Node::type(reshape.getInput());
    if (type.getRank() != 2 || from.getRank() == 0 ||
        from.getShape().back() != type.getShape().back())
      break;
    made = reshape.getInput();
  }
  auto it = node.building.logSoftmaxOf.find(made);
  if (type.getRank() != 2 || it == node.building.logSoftmaxOf.end() || node.has(2))
    return importLoss(node, scores, /*isLog=*/true);
  return importLoss(node, node.reshape(it->second, type.getShape()));
}

void onnx::registerLossOps(HandlerRegistry &r) {
  r.add("", "SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropy);
  r.add("", "NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihood);
}
