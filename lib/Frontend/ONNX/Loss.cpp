//===- Loss.cpp - The loss as a sum over a count --------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Importer.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

FailureOr<Value> Importer::output(StringRef name) {
  auto it = root.values.find(name);
  if (it == root.values.end() || !it->second.value) {
    error("output '" + displayName(name) + "' is not defined by any node");
    return failure();
  }
  return it->second.value;
}

/// Returns a name for a label input that the graph does not have yet.
static std::string freeName(StringRef wanted, const llvm::StringMap<Binding> &taken) {
  std::string name = wanted.str();
  while (taken.count(name))
    name += "_";
  return name;
}

/// Reads an output that is the loss, or a term of it.
FailureOr<LossParts> Importer::readLoss(StringRef name, Value &loss) {
  FailureOr<Value> value = output(name);
  if (mlir::failed(value))
    return failure();
  loss = *value;
  if (tensor(loss).getNumElements() != 1 || !isa<FloatType>(tensor(loss).getElementType()))
    return error("'" + displayName(name) + "' cannot be the loss: its type is " +
                     Node::name(loss.getType()),
                 training ? SHALE_EXIT_DATA : SHALE_EXIT_USAGE),
           failure();
  auto known = lossParts.find(loss);
  auto scalar = RankedTensorType::get({}, tensor(loss).getElementType());
  if (loss.getType() != scalar)
    loss = nn::ReshapeOp::create(builder, fileLocation(), scalar, loss);
  if (known != lossParts.end())
    return known->second;
  return recognizeLoss(loss);
}

/// Whether a loss is a mean over labels, not over a number that is known.
static bool isMeanOfLabels(Value loss, const LossParts &parts) {
  return parts.sum != loss && !parts.count.getDefiningOp<nn::ConstantOp>();
}

LogicalResult Importer::makeLoss(Value &loss, LossParts &parts) {
  current = nullptr;
  currentScope.reset();
  Location loc = fileLocation();
  std::vector<std::pair<Value, LossParts>> terms;
  SmallVector<double> weights;
  if (!lossKind.empty()) {
    FailureOr<LossParts> built = buildLoss(loss);
    if (mlir::failed(built))
      return failure();
    terms.push_back({loss, *built});
    weights.push_back(1);
  }
  for (const LossTerm &term : lossTerms) {
    FailureOr<LossParts> read = readLoss(term.output, loss);
    if (mlir::failed(read))
      return failure();
    terms.push_back({loss, *read});
    weights.push_back(term.weight);
  }
  for (const auto &[value, each] : terms)
    if (each.labels)
      labeled.push_back(each);
  std::tie(loss, parts) = terms.front();
  if (terms.size() == 1 && weights.front() == 1)
    return success();

  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  loss = {};
  for (auto [term, weight] : llvm::zip(terms, weights)) {
    Value value = term.first;
    if (value.getType() != scalar)
      value = nn::CastOp::create(builder, loc, scalar, value);
    if (weight != 1)
      value =
          nn::MulOp::create(builder, loc, scalar, value, nn::splat(builder, loc, scalar, weight));
    loss = loss ? Value(nn::AddOp::create(builder, loc, scalar, loss, value)) : value;
  }
  // The sum is the mean of its first mean over labels: each micro-batch has the weight of its
  // labels.
  auto mean =
      llvm::find_if(terms, [](auto &term) { return isMeanOfLabels(term.first, term.second); });
  if (mean == terms.end())
    parts = {loss, nn::splat(builder, loc, scalar, 1.0)};
  else
    parts = asMean(builder, loc, loss, mean->first, mean->second.count);
  return success();
}

/// Returns the loss of a squared error, or of an output that is a loss for each example.
static LossParts buildReduced(OpBuilder &builder, Location loc, Value each, bool mean,
                              Value &loss) {
  auto scalar = RankedTensorType::get({}, tensor(each).getElementType());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, tensor(each).getRank()));
  LossParts parts;
  parts.sum =
      dims.empty()
          ? each
          : Value(nn::ReduceOp::create(builder, loc, scalar, nn::ReduceKind::Sum, each, dims));
  parts.count = nn::splat(builder, loc, scalar, mean ? double(tensor(each).getNumElements()) : 1.0);
  loss = mean ? Value(nn::DivOp::create(builder, loc, scalar, parts.sum, parts.count)) : parts.sum;
  return parts;
}

/// Returns the labels of --loss: a value of the graph, or an input that is added.
FailureOr<Value> Importer::labelsOf(RankedTensorType output) {
  bool mse = lossKind == "mse";
  std::optional<int64_t> batchDim;
  for (const Input &input : inputs)
    if (input.batchDim == 0 && output.getRank() > 0 &&
        input.type.getDimSize(0) == output.getDimSize(0))
      batchDim = 0;
  auto wanted =
      mse ? output : RankedTensorType::get(output.getShape().drop_back(), builder.getI64Type());
  std::string name = labelsName.empty() ? freeName("labels", root.values) : labelsName;
  if (!root.values.count(name)) {
    if (mlir::failed(addInput(name, wanted, batchDim)))
      return failure();
    inputs.back().isLabel = true;
    if (!mse)
      inputs.back().binding = "tokens+1";
  }
  Value labels = root.values[name].value;
  bool integers = labels && (tensor(labels).getElementType().isInteger(64) ||
                             tensor(labels).getElementType().isInteger(32));
  if (!labels || tensor(labels).getShape() != wanted.getShape() ||
      (mse ? tensor(labels) != wanted : !integers))
    return error("--loss: '" + displayName(name) + "' has another type than '" +
                     displayName(logitsName) + "' asks for, " + Node::name(wanted),
                 SHALE_EXIT_USAGE),
           failure();
  return labels;
}

/// Builds the loss that --loss defines.
FailureOr<LossParts> Importer::buildLoss(Value &loss) {
  Location loc = fileLocation();
  FailureOr<Value> logits = output(logitsName);
  if (mlir::failed(logits))
    return failure();
  RankedTensorType type = tensor(*logits);
  std::string shown = displayName(logitsName);
  if (!isa<FloatType>(type.getElementType()))
    return error("--loss: '" + shown + "' has type " + Node::name(type) + ", not of floats",
                 SHALE_EXIT_USAGE),
           failure();
  if (lossKind == "mean" || lossKind == "sum")
    return buildReduced(builder, loc, *logits, lossKind == "mean", loss);
  bool mse = lossKind == "mse";
  if (!mse && type.getRank() < 2)
    return error("--loss: '" + shown + "' has type " + Node::name(type) +
                     "; logits have a dimension of rows and one of classes",
                 SHALE_EXIT_USAGE),
           failure();
  FailureOr<Value> labels = labelsOf(type);
  if (mlir::failed(labels))
    return failure();
  if (mse) {
    Value difference = nn::SubOp::create(builder, loc, type, *logits, *labels);
    return buildReduced(builder, loc, nn::MulOp::create(builder, loc, type, difference, difference),
                        /*mean=*/true, loss);
  }
  int64_t classes = type.getShape().back(),
          rows = type.getNumElements() / std::max<int64_t>(classes, 1);
  Value flat = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows, classes}, type.getElementType()), *logits);
  Value picked = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows}, tensor(*labels).getElementType()), *labels);
  LossParts parts = buildCrossEntropy(builder, loc, flat, picked, -100);
  loss = buildMean(builder, loc, parts);
  return parts;
}

LossParts onnx::buildCrossEntropy(OpBuilder &builder, Location loc, Value logits, Value labels,
                                  int64_t ignore) {
  auto element = tensor(logits).getElementType();
  auto scalar = RankedTensorType::get({}, element);
  auto rows = RankedTensorType::get({tensor(logits).getDimSize(0)}, element);
  auto op = nn::CrossEntropyOp::create(builder, loc, TypeRange{scalar, scalar, rows}, logits,
                                       labels, builder.getI64IntegerAttr(ignore));
  return {op.getLossSum(), op.getCount(), labels, logits};
}

Value onnx::buildMean(OpBuilder &builder, Location loc, const LossParts &parts) {
  auto scalar = tensor(parts.sum);
  Value one = nn::splat(builder, loc, scalar, 1.0);
  Value count = nn::MaxOp::create(builder, loc, scalar, parts.count, one);
  return nn::DivOp::create(builder, loc, scalar, parts.sum, count);
}
