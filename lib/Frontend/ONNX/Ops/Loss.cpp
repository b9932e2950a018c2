//===- Loss.cpp - Loss ops of the graph -----------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
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
  int64_t classes = type.getDimSize(1);
  return node.reshape(node.transpose(scores, dimToEnd(type.getRank(), 1)),
                      {type.getNumElements() / std::max<int64_t>(classes, 1), classes});
}

/// Turns rows [N * d, C] into scores of the shape [N, C, d...].
static Value classesSecond(Node &node, Value rows, ArrayRef<int64_t> shape) {
  int64_t last = shape.size() - 1;
  rows = node.reshape(rows, joinedSizes({withoutDim(shape, 1), {shape[1]}}));
  return node.transpose(rows, joinedSizes({{0, last}, dimRange(1, last)}));
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
  Value isLabel = node.binary(node.broadcast(column, type.getShape()), classes, nn::Predicate::EQ);
  Value counts = node.binary(labels, double(ignore), nn::Predicate::NE);
  auto each = RankedTensorType::get({type.getDimSize(0)}, type.getElementType());
  Value zeros = node.like(rows, 0), zero = node.constant(each, 0);
  auto pick = [&](Value from) {
    return node.select(counts, node.sum(node.select(isLabel, from, zeros), {1}, false), zero);
  };
  RowLosses result;
  if (weights) {
    Value table = node.broadcast(node.reshape(weights, {1, type.getDimSize(1)}), type.getShape());
    result.weights = pick(table);
    rows = node.mul(rows, table);
  } else {
    result.weights = node.select(counts, node.constant(each, 1), zero);
  }
  Value own = pick(rows);
  if (smoothing != 0) {
    Value all = node.select(counts, node.sum(rows, {1}, false), zero);
    double count = std::max<int64_t>(type.getDimSize(1), 1);
    own = node.add(node.mul(own, 1 - smoothing), node.mul(all, smoothing / count));
  }
  result.losses = node.neg(own);
  return result;
}

/// Builds sum / weight, where a weight of zero counts as one.
static Value weightedMean(Node &node, const LossParts &parts) {
  Value isPositive = node.binary(parts.count, 0, nn::Predicate::GT);
  return node.div(parts.sum, node.select(isPositive, parts.count, 1));
}

namespace {
/// The attributes that losses of labels and losses of probabilities share.
struct LossForm {
  std::string reduction;
  double smoothing = 0; // which only the record of the operation has
};
} // namespace

/// Reads and checks all but the targets; `type` is that of the scores.
static LogicalResult readForm(Node &node, RankedTensorType type, LossForm &form) {
  if (type.getRank() < 2) // PyTorch takes the scores of a single example, too
    return node.error("scores {} have no batch: pass those of one example as [1, classes], by "
                      "unsqueeze(0) of the scores and of the target",
                      type);
  if (Value weights = node.input(2);
      weights && Node::type(weights) != type.clone({type.getDimSize(1)}))
    return node.error("weights {} do not fit the {} classes of {}", weights, type.getDimSize(1),
                      type);
  form.reduction = node.choiceAttr("reduction", {"mean", "none", "sum"});
  FxNode fx = readFxNode(node.proto);
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    form.smoothing = numberArgument(fx, 5, "label_smoothing").value_or(0);
  if (!(form.smoothing >= 0 && form.smoothing <= 1))
    return node.error("label_smoothing must be from 0 to 1; got {}",
                      plain(shortest(form.smoothing)));
  if (form.smoothing != 0)
    emitDecision(node.loc, "import",
                 "label_smoothing=" + shortest(form.smoothing) +
                     " is restored: the export left it out");
  return success();
}

/// Cross-entropy with a probability for each class as the target, of the scores' shape. ONNX has
/// none; PyTorch's exporter writes it as the operator for labels, and the mean is over the rows.
static Value importProbabilities(Node &node) {
  Value scores = node.input(0);
  auto type = Node::type(scores);
  LossForm form;
  if (failed(readForm(node, type, form)))
    return {};
  if (!isa<FloatType>(type.getElementType()) || node.isRead(1))
    return node.error("scores {} and probabilities do not fit", type);
  node.intAttr("ignore_index", 0); // of labels
  Value rows = classesLast(node, scores), targets = classesLast(node, node.input(1));
  if (!rows || !targets)
    return {};
  double classes = std::max<int64_t>(Node::type(rows).getDimSize(1), 1);
  if (form.smoothing != 0)
    targets = node.add(node.mul(targets, 1 - form.smoothing), form.smoothing / classes);
  Value losses = node.mul(targets, logSoftmax(node, rows));
  if (Value weights = node.input(2))
    losses = node.mul(losses, weights);
  losses = node.sum(node.neg(losses), {1}, false);
  if (form.reduction == "none")
    return node.reshape(losses, withoutDim(type.getShape(), 1));
  Value sum = node.sum(losses, {0}, false);
  double count = std::max<int64_t>(Node::type(rows).getDimSize(0), 1);
  return form.reduction == "sum" ? sum : node.div(sum, count);
}

/// `logits` are logits, or with `isLog` log-probabilities. The node's second result are the
/// log-probabilities.
static LogicalResult importLoss(Node &node, Value logits, bool isLog = false) {
  auto type = Node::type(logits), ids = Node::type(node.input(1));
  LossForm form;
  if (failed(readForm(node, type, form)))
    return failure();
  if (ids.getShape() != ArrayRef<int64_t>(withoutDim(type.getShape(), 1)) ||
      !isa<FloatType>(type.getElementType()) || !areIndices(node.input(1)))
    return node.error("scores {} and labels {} do not fit", type, ids);
  Value weights = node.input(2);
  // Without the attribute no label is ignored: the smallest integer is never a
  // label.
  int64_t ignore =
      node.intAttr("ignore_index", ids.getElementType().isInteger(32) ? INT32_MIN : INT64_MIN);
  Value rows = classesLast(node, logits),
        labels = node.reshape(node.input(1), {ids.getNumElements()});
  if (!rows || !labels)
    return failure();
  bool fused = !isLog && !weights && form.reduction != "none" && form.smoothing == 0;
  Value logRows = isLog ? rows : fused && !node.wants(1) ? Value() : logSoftmax(node, rows);
  if (node.wants(1)) // absent from a NegativeLogLikelihoodLoss
    node.set(1, logRows ? classesSecond(node, logRows, type.getShape()) : Value());
  LossParts parts;
  if (fused) {
    parts = buildCrossEntropy(node.builder, node.loc, rows, labels, ignore);
  } else if (logRows) {
    RowLosses picked = pickClasses(node, logRows, labels, ignore, weights, form.smoothing);
    if (form.reduction == "none") {
      node.set(0, node.reshape(picked.losses, ids.getShape()));
      return success();
    }
    parts.sum = node.sum(picked.losses, {0}, false);
    parts.count = node.sum(picked.weights, {0}, false);
    parts.labels = labels;
    parts.logits = rows;
  }
  if (!parts.sum || !parts.count)
    return failure();
  Value loss = parts.sum;
  if (form.reduction == "mean")
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
  bool isOfProbabilities = node.input(0).getType() == node.input(1).getType() &&
                           StringRef(node.tracedAs()).starts_with(words::kCrossEntropy);
  if (!isOfProbabilities)
    return importLoss(node, node.input(0));
  Value loss = importProbabilities(node);
  return loss ? (node.set(0, loss), success()) : failure();
}

static LogicalResult importNegativeLogLikelihood(Node &node) {
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
  r.add("", "SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropy, needs(2));
  r.add("", "NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihood, needs(2));
}
