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
static Tensor classesLast(Tensor scores) {
  int64_t classes = scores.dim(1);
  return scores.transpose(dimToEnd(scores.rank(), 1))
      .reshape({scores.count() / std::max<int64_t>(classes, 1), classes});
}

/// Returns the losses of rows of log-probabilities [N, C], -weight[label] * row[label], and their
/// weights, weight[label], both [N]; zero where the label is ignored. Labels [N]; `weights` [C] or
/// null: all 1. `smoothing` e: a row's loss is 1 - e of its own and e of the mean of the losses of
/// all classes.
static std::pair<Tensor, Tensor> pickClasses(Node &node, Tensor rows, Tensor labels, int64_t ignore,
                                             Tensor weights, double smoothing) {
  auto type = rows.type();
  Tensor classes = node.create<nn::IotaOp>(type.clone(labels.element()), int64_t(1));
  Tensor column = labels.reshape({type.getDimSize(0), 1});
  Tensor isLabel = equal(column.broadcast(type.getShape()), classes);
  Tensor counts = differ(labels, double(ignore));
  auto each = type.clone({type.getDimSize(0)});
  Tensor zeros = rows.like(0), zero = node.constant(each, 0);
  auto pick = [&](Tensor from) {
    return select(counts, select(isLabel, from, zeros).sum({1}, false), zero);
  };
  Tensor counted;
  if (weights) {
    Tensor table = weights.reshape({1, type.getDimSize(1)}).broadcast(type.getShape());
    counted = pick(table);
    rows = rows * table;
  } else {
    counted = select(counts, node.constant(each, 1), zero);
  }
  Tensor own = pick(rows);
  if (smoothing != 0) {
    Tensor all = select(counts, rows.sum({1}, false), zero);
    own = own * (1 - smoothing) + all * (smoothing / std::max<int64_t>(type.getDimSize(1), 1));
  }
  return {-own, counted};
}

/// Reads and checks all but the targets; `type` is that of the scores. Only the record of the
/// operation has the `smoothing`.
static LogicalResult readForm(Node &node, RankedTensorType type, std::string &reduction,
                              double &smoothing) {
  if (type.getRank() < 2) // PyTorch takes the scores of a single example, too
    return node.error("scores {} have no batch: pass those of one example as [1, classes], by "
                      "unsqueeze(0) of the scores and of the target",
                      type);
  if (Tensor weights = node.input(2); weights && weights.type() != type.clone({type.getDimSize(1)}))
    return node.error("weights {} do not fit the {} classes of {}", weights, type.getDimSize(1),
                      type);
  reduction = node.choiceAttr("reduction", {"mean", "none", "sum"});
  FxNode fx = readFxNode(node.proto);
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    smoothing = fx.number(5, "label_smoothing").value_or(0);
  if (!(smoothing >= 0 && smoothing <= 1))
    return node.error("label_smoothing must be from 0 to 1; got {}", plain(shortest(smoothing)));
  if (smoothing != 0)
    emitDecision(node.loc, "import",
                 "label_smoothing=" + shortest(smoothing) + " is restored: the export left it out");
  return success();
}

/// Cross-entropy with a probability for each class as the target, of the scores' shape. ONNX has
/// none; PyTorch's exporter writes it as the operator for labels, and the mean is over the rows.
static Tensor importProbabilities(Node &node, Tensor scores, Tensor targets) {
  auto type = scores.type();
  std::string reduction;
  double smoothing = 0;
  if (failed(readForm(node, type, reduction, smoothing)))
    return {};
  if (!isa<FloatType>(type.getElementType()) || node.isRead(1))
    return node.error("scores {} and probabilities do not fit", type);
  node.intAttr("ignore_index", 0); // of labels
  Tensor rows = classesLast(scores);
  targets = classesLast(targets);
  if (smoothing != 0)
    targets = targets * (1 - smoothing) + (smoothing / std::max<int64_t>(rows.dim(1), 1));
  Tensor losses = targets * logSoftmax(rows);
  if (Tensor weights = node.input(2))
    losses = losses * weights;
  losses = (-losses).sum({1}, false);
  if (reduction == "none")
    return losses.reshape(withoutDim(type.getShape(), 1));
  Tensor sum = losses.sum({0}, false);
  return reduction == "sum" ? sum : sum / std::max<int64_t>(rows.dim(0), 1);
}

/// `logits` are logits, or with `isLog` log-probabilities. The node's second result are the
/// log-probabilities.
static LogicalResult importLoss(Node &node, Tensor logits, bool isLog = false) {
  Tensor labels = node.input(1), weights = node.input(2);
  auto type = logits.type(), ids = labels.type();
  std::string reduction;
  double smoothing = 0;
  if (failed(readForm(node, type, reduction, smoothing)))
    return failure();
  if (ids.getShape() != ArrayRef<int64_t>(withoutDim(type.getShape(), 1)) ||
      !isa<FloatType>(type.getElementType()) || !areIndices(labels))
    return node.error("scores {} and labels {} do not fit", type, ids);
  // Without the attribute no label is ignored: the smallest integer is never a
  // label.
  int64_t ignore =
      node.intAttr("ignore_index", ids.getElementType().isInteger(32) ? INT32_MIN : INT64_MIN);
  Tensor rows = classesLast(logits);
  labels = labels.reshape({labels.count()});
  if (!rows || !labels)
    return failure();
  bool fused = !isLog && !weights && reduction != "none" && smoothing == 0;
  Tensor logRows = isLog ? rows : fused && !node.wants(1) ? Tensor() : logSoftmax(rows);
  if (node.wants(1)) { // absent from a NegativeLogLikelihoodLoss
    Tensor last = logRows.reshape(joinedSizes({ids.getShape(), {type.getDimSize(1)}}));
    node.set(1, last.transpose(inverse(dimToEnd(type.getRank(), 1))));
  }
  LossParts parts;
  if (fused) {
    parts = buildCrossEntropy(node, rows, labels, ignore);
  } else if (logRows) {
    auto [losses, counted] = pickClasses(node, logRows, labels, ignore, weights, smoothing);
    if (reduction == "none") {
      node.set(0, losses.reshape(ids.getShape()));
      return success();
    }
    parts = {losses.sum({0}, false), counted.sum({0}, false), labels, rows};
  }
  if (!parts.sum || !parts.count)
    return failure();
  Tensor loss(node, parts.sum), weight(node, parts.count);
  if (reduction != "mean")
    parts.count = node.constant(loss.type(), 1);
  else if (weights) // a weight of zero counts as one
    loss = loss / select(weight > 0, weight, 1);
  else
    loss = buildMean(node, parts);
  if (!loss)
    return failure();
  node.building.lossParts[loss] = parts;
  node.set(0, loss);
  return success();
}

static LogicalResult importSoftmaxCrossEntropy(Node &node, Tensor scores, Tensor targets) {
  bool isOfProbabilities = scores.getType() == targets.getType() &&
                           StringRef(node.tracedAs()).starts_with(words::kCrossEntropy);
  return isOfProbabilities ? node.give(importProbabilities(node, scores, targets))
                           : importLoss(node, scores);
}

static LogicalResult importNegativeLogLikelihood(Node &node, Tensor scores) {
  // Rows of log-probabilities from a LogSoftmax over the classes become a cross-entropy of its
  // operand.
  Tensor made = scores;
  auto type = scores.type();
  while (auto reshape = made.getDefiningOp<nn::ReshapeOp>()) {
    auto from = reshape.getInput().getType();
    if (type.getRank() != 2 || from.getRank() == 0 ||
        from.getShape().back() != type.getShape().back())
      break;
    made = Tensor(node, reshape.getInput());
  }
  auto it = node.building.logSoftmaxOf.find(made);
  if (type.getRank() != 2 || it == node.building.logSoftmaxOf.end() || node.has(2))
    return importLoss(node, scores, /*isLog=*/true);
  return importLoss(node, Tensor(node, it->second).reshape(type.getShape()));
}

void onnx::registerLossOps(HandlerRegistry &r) {
  r.add("", "SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropy, needs(2));
  r.add("", "NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihood, needs(2));
}
