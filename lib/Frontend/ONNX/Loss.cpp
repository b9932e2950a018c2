//===- Loss.cpp - The loss as a sum over a count, and how inputs are bound ===//
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Importer.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

FailureOr<Value> Importer::output(StringRef name) {
  auto it = root.values.find(name);
  if (it == root.values.end() || !it->second.value) {
    error("output '" + displayName(name) + "' is not defined by any node");
    return failure();
  }
  return it->second.value;
}

/// The name of a label input that the graph does not have.
static std::string freeName(StringRef wanted,
                            const llvm::StringMap<Binding> &taken) {
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
    if (tensor(loss).getNumElements() != 1 ||
        !isa<FloatType>(tensor(loss).getElementType()))
      return error("'" + displayName(lossName) + "' is no loss: its type is " +
                       Node::name(loss.getType()),
                   SHALE_EXIT_USAGE),
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
    return error("--loss: '" + shown + "' has type " + Node::name(type) +
                     ", not of floats",
                 SHALE_EXIT_USAGE),
           failure();
  std::optional<int64_t> batchDim;
  for (const Input &input : inputs)
    if (input.batchDim == 0 && type.getRank() > 0 &&
        input.type.getDimSize(0) == type.getDimSize(0))
      batchDim = 0;
  bool mse = lossKind == "mse";
  if (!mse && type.getRank() < 2)
    return error("--loss: '" + shown + "' has type " + Node::name(type) +
                     "; logits have a dimension of rows and one of classes",
                 SHALE_EXIT_USAGE),
           failure();
  auto labelType = mse ? type
                       : RankedTensorType::get(type.getShape().drop_back(),
                                               builder.getI64Type());
  std::string name =
      labelsName.empty() ? freeName("labels", root.values) : labelsName;
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
    return error("--loss: '" + displayName(name) + "' has another type than '" +
                     shown + "' asks for, " + Node::name(labelType),
                 SHALE_EXIT_USAGE),
           failure();

  auto scalar = RankedTensorType::get({}, type.getElementType());
  if (mse) {
    Value difference = nn::SubOp::create(builder, loc, type, *logits, labels);
    Value square =
        nn::MulOp::create(builder, loc, type, difference, difference);
    SmallVector<int64_t> dims =
        llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    parts.sum =
        dims.empty()
            ? square
            : Value(nn::ReduceOp::create(builder, loc, scalar,
                                         nn::ReduceKind::Sum, square, dims));
    parts.count =
        nn::splat(builder, loc, scalar, double(type.getNumElements()));
    loss = nn::DivOp::create(builder, loc, scalar, parts.sum, parts.count);
    return success();
  }
  int64_t classes = type.getShape().back(),
          rows = type.getNumElements() / std::max<int64_t>(classes, 1);
  Value flat = nn::ReshapeOp::create(
      builder, loc,
      RankedTensorType::get({rows, classes}, type.getElementType()), *logits);
  Value picked = nn::ReshapeOp::create(
      builder, loc,
      RankedTensorType::get({rows}, tensor(labels).getElementType()), labels);
  parts = buildCrossEntropy(builder, loc, flat, picked, -100);
  loss = buildMean(builder, loc, parts);
  return success();
}

LossParts onnx::buildCrossEntropy(OpBuilder &builder, Location loc,
                                  Value logits, Value labels, int64_t ignore) {
  auto element = tensor(logits).getElementType();
  auto scalar = RankedTensorType::get({}, element);
  auto rows = RankedTensorType::get({tensor(logits).getDimSize(0)}, element);
  auto op = nn::CrossEntropyOp::create(
      builder, loc, TypeRange{scalar, scalar, rows}, logits, labels,
      builder.getI64IntegerAttr(ignore));
  return {op.getLossSum(), op.getCount(), labels, logits};
}

Value onnx::buildMean(OpBuilder &builder, Location loc,
                      const LossParts &parts) {
  auto scalar = tensor(parts.sum);
  Value one = nn::splat(builder, loc, scalar, 1.0);
  Value count = nn::MaxOp::create(builder, loc, scalar, parts.count, one);
  return nn::DivOp::create(builder, loc, scalar, parts.sum, count);
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

/// Follows labels back to the argument they come from. `shift` is the index, in
/// the argument's last dimension, of what stands at index 0 now.
static BlockArgument traceLabels(Value value, int64_t &shift) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument;
    Operation *op = value.getDefiningOp();
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      if (slice.getStrides().back() != 1)
        return {};
      shift += slice.getStarts().back();
      value = slice.getInput();
    } else if (auto pad = dyn_cast<nn::PadOp>(op)) {
      if (pad.getInterior().back() != 0)
        return {};
      shift -= pad.getLow().back();
      value = pad.getInput();
    } else if (auto concat = dyn_cast<nn::ConcatOp>(op)) {
      // Ignored labels are appended, or put in front.
      bool isFirst =
          !concat.getInputs().front().getDefiningOp<nn::ConstantOp>();
      Value kept =
          isFirst ? concat.getInputs().front() : concat.getInputs().back();
      if (concat.getInputs().size() != 2)
        return {};
      if (!isFirst)
        shift -= tensor(concat.getInputs().front()).getShape().back();
      value = kept;
    } else if (isa<nn::ReshapeOp, nn::CastOp>(op)) {
      value = op->getOperand(0);
    } else if (auto select = dyn_cast<nn::SelectOp>(op)) {
      value = select.getOnFalse();
    } else {
      return {};
    }
  }
}

/// Positions that logits were cut at their beginning.
static int64_t traceLogits(Value value) {
  if (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  auto slice = value.getDefiningOp<nn::SliceOp>();
  int64_t rank = tensor(value).getRank();
  return slice && rank >= 3 ? slice.getStarts()[rank - 2] : 0;
}

LogicalResult Importer::bindInputs(const LossParts &parts) {
  current = nullptr;
  if (parts.labels) {
    int64_t shift = 0;
    BlockArgument argument = traceLabels(parts.labels, shift);
    for (Input &input : inputs) {
      if (input.argument != argument || !argument)
        continue;
      input.isLabel = true;
      int64_t net = shift - traceLogits(parts.logits);
      if (net == 1) {
        input.binding = "tokens";
        bindingNote = "the graph shifts '" + displayName(input.name) +
                      "' against the logits by one: bound to tokens";
      } else if (net == 0 && input.binding.empty()) {
        input.binding = "tokens+1";
        bindingNote = "the graph does not shift '" + displayName(input.name) +
                      "' against the logits: bound to tokens+1";
      } else if (input.binding.empty()) {
        bindingNote = "the graph shifts '" + displayName(input.name) + "' by " +
                      std::to_string(net) + ": pass --bind " +
                      displayName(input.name) +
                      "=tokens or tokens+1, or have it in the data file";
      } else {
        bindingNote = "labels '" + displayName(input.name) + "' are bound to " +
                      input.binding;
      }
    }
    if (bindingNote.empty())
      bindingNote = "cannot tell which input the labels are: pass --bind "
                    "INPUT=tokens|tokens+1|ones|arange, or have all inputs in "
                    "the data file";
  }
  bool haveTokens = false;
  for (Input &input : inputs) {
    if (input.isLabel || input.role || !input.type.getElementType().isSignlessInteger())
      continue;
    StringRef name = input.name;
    bool looksUp = llvm::any_of(input.argument.getUsers(), [](Operation *user) {
      if (isa<nn::ReshapeOp, nn::CastOp>(user))
        return llvm::any_of(user->getUsers(), [](Operation *next) {
          return isa<nn::EmbeddingOp>(next);
        });
      return isa<nn::EmbeddingOp>(user);
    });
    if (input.argument.use_empty()) // only its shape is read: any tokens do
      input.binding = "tokens";
    else if (name.contains("mask"))
      input.binding = "ones";
    else if (name.contains("position"))
      input.binding = "arange";
    else if (looksUp && !haveTokens && !name.contains("type"))
      input.binding = "tokens", haveTokens = true;
  }
  for (auto &bind : options.bindings) {
    auto it = llvm::find_if(
        inputs, [&](Input &input) { return input.name == bind.getKey(); });
    if (it == inputs.end())
      return error("--bind: no input '" + displayName(bind.getKey()) + "'",
                   SHALE_EXIT_USAGE),
             failure();
    it->binding = bind.getValue();
    if (it->isLabel)
      bindingNote = "labels '" + displayName(it->name) + "' are bound to " +
                    bind.getValue() + " (--bind)";
  }
  if (!bindingNote.empty())
    emitRemark(fileLocation()) << bindingNote;
  return success();
}
