//===- Loss.cpp - Losses that graphs bring --------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The classes are dimension 1, [N, C, d...]: brought to rows [N * d, C].
static Value classesLast(Node &node, Value scores) {
  auto type = Node::type(scores);
  SmallVector<int64_t> perm = {0};
  for (int64_t i = 2; i < type.getRank(); ++i)
    perm.push_back(i);
  perm.push_back(1);
  int64_t classes = type.getDimSize(1);
  return node.reshape(
      node.transpose(scores, perm),
      {type.getNumElements() / std::max<int64_t>(classes, 1), classes});
}

static LogicalResult importLoss(Node &node, Value logits) {
  auto type = Node::type(logits), ids = Node::type(node.input(1));
  if (type.getRank() < 2 || ids.getRank() != type.getRank() - 1 ||
      !isa<FloatType>(type.getElementType()) ||
      (!ids.getElementType().isInteger(64) &&
       !ids.getElementType().isInteger(32)) ||
      ids.getNumElements() * type.getDimSize(1) != type.getNumElements())
    return node.error("scores " + Node::name(type) + " and labels " +
                      Node::name(ids) + " do not fit");
  if (node.has(2))
    return node.error("weights of classes are not supported yet");
  if (node.wants(1))
    return node.error(
        "its second result (log-probabilities) is not supported yet");
  std::string reduction = node.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    return node.error("reduction '" + displayName(reduction) +
                      "' is not supported yet (mean and sum are)");
  // Without the attribute no label is ignored: no label is the smallest
  // integer.
  int64_t ignore =
      node.intAttr("ignore_index",
                   ids.getElementType().isInteger(32) ? INT32_MIN : INT64_MIN);
  Value rows = classesLast(node, logits),
        labels = node.reshape(node.input(1), {ids.getNumElements()});
  if (!rows || !labels)
    return failure();
  LossParts parts =
      buildCrossEntropy(node.builder, node.loc, rows, labels, ignore);
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
  auto it = node.importer.logSoftmaxOf.find(node.input(0));
  if (it == node.importer.logSoftmaxOf.end())
    return node.error(
        "is supported only for the result of a LogSoftmax over its classes");
  return importLoss(node, it->second);
}

void onnx::registerLossOps(HandlerRegistry &r) {
  r.add("", "SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropy);
  r.add("", "NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihood);
}
