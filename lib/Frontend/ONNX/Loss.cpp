//===- Loss.cpp - The loss as a sum over a count --------------------------===//
#include "dialects/nn/Ops/Loss.h"
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

LogicalResult Importer::makeLoss(Value &loss, LossParts &parts) {
  current = nullptr;
  currentScope.reset();
  Location loc = fileLocation();
  if (lossKind.empty()) {
    FailureOr<Value> value = output(lossName);
    if (mlir::failed(value))
      return failure();
    loss = *value;
    if (tensor(loss).getNumElements() != 1 || !isa<FloatType>(tensor(loss).getElementType()))
      return error("'" + displayName(lossName) + "' cannot be the loss: its type is " +
                       Node::name(loss.getType()),
                   training ? SHALE_EXIT_DATA : SHALE_EXIT_USAGE),
             failure();
    auto scalar = RankedTensorType::get({}, tensor(loss).getElementType());
    auto known = lossParts.find(loss);
    if (loss.getType() != scalar)
      loss = nn::ReshapeOp::create(builder, loc, scalar, loss);
    if (known != lossParts.end())
      parts = known->second;
    else
      parts = {loss, nn::splat(builder, loc, scalar, 1.0)};
    return success();
  }

  FailureOr<Value> logits = output(logitsName);
  if (mlir::failed(logits))
    return failure();
  RankedTensorType type = tensor(*logits);
  std::string shown = displayName(logitsName);
  if (!isa<FloatType>(type.getElementType()))
    return error("--loss: '" + shown + "' has type " + Node::name(type) + ", not of floats",
                 SHALE_EXIT_USAGE),
           failure();
  std::optional<int64_t> batchDim;
  for (const Input &input : inputs)
    if (input.batchDim == 0 && type.getRank() > 0 && input.type.getDimSize(0) == type.getDimSize(0))
      batchDim = 0;
  bool mse = lossKind == "mse";
  if (!mse && type.getRank() < 2)
    return error("--loss: '" + shown + "' has type " + Node::name(type) +
                     "; logits have a dimension of rows and one of classes",
                 SHALE_EXIT_USAGE),
           failure();
  auto labelType =
      mse ? type : RankedTensorType::get(type.getShape().drop_back(), builder.getI64Type());
  std::string name = labelsName.empty() ? freeName("labels", root.values) : labelsName;
  if (!root.values.count(name)) {
    if (mlir::failed(addInput(name, labelType, batchDim)))
      return failure();
    inputs.back().isLabel = true;
    if (!mse)
      inputs.back().binding = "tokens+1";
  }
  Value labels = root.values[name].value;
  bool integers = labels && (tensor(labels).getElementType().isInteger(64) ||
                             tensor(labels).getElementType().isInteger(32));
  if (!labels || tensor(labels).getShape() != labelType.getShape() ||
      (mse ? tensor(labels) != labelType : !integers))
    return error("--loss: '" + displayName(name) + "' has another type than '" + shown +
                     "' asks for, " + Node::name(labelType),
                 SHALE_EXIT_USAGE),
           failure();

  auto scalar = RankedTensorType::get({}, type.getElementType());
  if (mse) {
    Value difference = nn::SubOp::create(builder, loc, type, *logits, labels);
    Value square = nn::MulOp::create(builder, loc, type, difference, difference);
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    parts.sum =
        dims.empty()
            ? square
            : Value(nn::ReduceOp::create(builder, loc, scalar, nn::ReduceKind::Sum, square, dims));
    parts.count = nn::splat(builder, loc, scalar, double(type.getNumElements()));
    loss = nn::DivOp::create(builder, loc, scalar, parts.sum, parts.count);
    return success();
  }
  int64_t classes = type.getShape().back(),
          rows = type.getNumElements() / std::max<int64_t>(classes, 1);
  Value flat = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows, classes}, type.getElementType()), *logits);
  Value picked = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows}, tensor(labels).getElementType()), labels);
  parts = buildCrossEntropy(builder, loc, flat, picked, -100);
  loss = buildMean(builder, loc, parts);
  return success();
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
