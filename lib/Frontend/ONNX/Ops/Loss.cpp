//===- Loss.cpp - Loss ops of the graph -----------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

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

/// Returns the sum of -row[label] and the number of rows, without rows whose label is `ignore`;
/// rows [N, C], labels [N].
static LossParts pickClasses(Node &node, Value rows, Value labels, int64_t ignore) {
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
  Value zeros = node.constant(type, 0), one = node.constant(floats, 1),
        zero = node.constant(floats, 0);
  Value picked = node.reduce(nn::ReduceKind::Sum,
                             node.create<nn::SelectOp>(type, isLabel, rows, zeros), {1}, false);
  Value kept = node.create<nn::SelectOp>(floats, counts, picked, zero);
  LossParts parts;
  parts.sum = node.unary<nn::NegOp>(node.reduce(nn::ReduceKind::Sum, kept, {0}, false));
  parts.count = node.reduce(nn::ReduceKind::Sum,
                            node.create<nn::SelectOp>(floats, counts, one, zero), {0}, false);
  parts.labels = labels;
  parts.logits = rows;
  return parts;
}

/// `logits` are logits, or with `isLog` log-probabilities.
static LogicalResult importLoss(Node &node, Value logits, bool isLog = false) {
  auto type = Node::type(logits), ids = Node::type(node.input(1));
  if (type.getRank() < 2 || ids.getRank() != type.getRank() - 1 ||
      !isa<FloatType>(type.getElementType()) ||
      (!ids.getElementType().isInteger(64) && !ids.getElementType().isInteger(32)) ||
      ids.getNumElements() * type.getDimSize(1) != type.getNumElements())
    return node.error("scores " + Node::name(type) + " and labels " + Node::name(ids) +
                      " do not fit");
  if (node.has(2))
    return node.error("weights of classes are not supported yet");
  if (node.wants(1))
    return node.error("its second result (log-probabilities) is not supported yet");
  std::string reduction = node.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    return node.error("reduction '" + displayName(reduction) +
                      "' is not supported yet (mean and sum are)");
  // Without the attribute no label is ignored: the smallest integer is never a
  // label.
  int64_t ignore =
      node.intAttr("ignore_index", ids.getElementType().isInteger(32) ? INT32_MIN : INT64_MIN);
  Value rows = classesLast(node, logits),
        labels = node.reshape(node.input(1), {ids.getNumElements()});
  if (!rows || !labels)
    return failure();
  LossParts parts = isLog ? pickClasses(node, rows, labels, ignore)
                          : buildCrossEntropy(node.builder, node.loc, rows, labels, ignore);
  if (!parts.sum || !parts.count)
    return failure();
  Value loss = parts.sum;
  if (reduction == "mean")
    loss = buildMean(node.builder, node.loc, parts);
  else
    parts.count = node.constant(Node::type(loss), 1);
  node.importer.lossParts[loss] = parts;
  node.set(0, loss);
  return success();
}

static LogicalResult importSoftmaxCrossEntropy(Node &node) {
  if (failed(node.require(2)))
    return failure();
  return importLoss(node, node.input(0));
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
  auto it = node.importer.logSoftmaxOf.find(made);
  if (type.getRank() != 2 || it == node.importer.logSoftmaxOf.end())
    return importLoss(node, scores, /*isLog=*/true);
  return importLoss(node, node.reshape(it->second, type.getShape()));
}

void onnx::registerLossOps(HandlerRegistry &r) {
  r.add("", "SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropy);
  r.add("", "NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihood);
}
