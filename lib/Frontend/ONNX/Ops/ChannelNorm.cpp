//===- ChannelNorm.cpp - Normalizations of channels -----------------------===//
//
// Group and instance normalization are layer normalizations of other rows, with a
// scale and a bias for each channel.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult readEpsilon(Node &node, double &epsilon) {
  epsilon = node.floatAttr("epsilon", 1e-5f);
  return std::isfinite(epsilon) && epsilon >= 0
             ? success()
             : node.error("epsilon must be finite and not negative");
}

/// Checks that the operand is [N, C, ..] of floats.
static LogicalResult checkChannels(Node &node, int64_t rank) {
  if (failed(node.requireFloats(1)))
    return failure();
  auto type = Node::type(node.input(0));
  if (type.getRank() >= rank)
    return success();
  return node.error("operand 0 must have a batch, channels" +
                    StringRef(rank > 2 ? " and spatial dimensions" : "") + ", but is " +
                    Node::name(type));
}

/// Checks that an operand has one number for each channel.
static LogicalResult checkOfChannels(Node &node, int operand) {
  auto type = Node::type(node.input(0)), own = Node::type(node.input(operand));
  if (own.getShape() == ArrayRef<int64_t>{type.getDimSize(1)} &&
      own.getElementType() == type.getElementType())
    return success();
  return node.error("operand " + Twine(operand) + " is " + Node::name(own) + " for the " +
                    Twine(type.getDimSize(1)) + " channels of " + Node::name(type));
}

/// Returns one number for each channel as [1, C, 1..]; null after an error.
static Value ofChannels(Node &node, int operand) {
  if (failed(checkOfChannels(node, operand)))
    return {};
  auto type = Node::type(node.input(0));
  SmallVector<int64_t> shape(type.getRank(), 1);
  shape[1] = type.getDimSize(1);
  return node.reshape(node.input(operand), shape);
}

/// Normalizes each row of [rows.., width] in the type `stash`.
static Value normalized(Node &node, Value x, double epsilon, Type stash) {
  if (!x)
    return {};
  Type element = Node::type(x).getElementType();
  x = normConverts(element, stash) ? node.cast(x, stash) : x;
  if (!x)
    return {};
  auto type = Node::type(x), stats = statisticsType(type);
  auto row = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  auto op = nn::LayerNormOp::create(node.builder, node.loc, TypeRange{type, stats, stats}, x,
                                    node.constant(row, 1), node.constant(row, 0),
                                    node.builder.getF64FloatAttr(epsilon));
  node.adopt(op);
  return node.cast(op.getResult(), element);
}

/// Normalizes [N, C, ..] over `groups` of channels, then scales and shifts.
static LogicalResult normalizeGroups(Node &node, int64_t groups, Value scale, Value bias,
                                     double epsilon, Type stash) {
  auto type = Node::type(node.input(0));
  int64_t rows = type.getDimSize(0) * groups;
  Value x = node.reshape(node.input(0),
                         {type.getDimSize(0), groups, rows ? type.getNumElements() / rows : 0});
  x = node.reshape(normalized(node, x, epsilon, stash), type.getShape());
  x = scale ? node.binary<nn::MulOp>(x, scale) : Value();
  node.set(0, bias ? node.binary<nn::AddOp>(x, bias) : Value());
  return success();
}

static LogicalResult importInstanceNorm(Node &node) {
  double epsilon;
  if (failed(node.require(3)) || failed(checkChannels(node, 3)) ||
      failed(readEpsilon(node, epsilon)))
    return failure();
  // PyTorch's exporter drops the update of running statistics.
  FxNode fx = readFxNode(node.proto);
  if (fx.positional.size() > 5 && StringRef(fx.target).starts_with(words::kInstanceNorm) &&
      fx.positional[3] != "None" && fx.positional[5] == "True")
    return node.error("an instance normalization that keeps running statistics is not supported: "
                      "evaluation would use those of each example. With "
                      "track_running_stats=False it does so in PyTorch, too, and trains the same "
                      "weights");
  return normalizeGroups(node, Node::type(node.input(0)).getDimSize(1), ofChannels(node, 1),
                         ofChannels(node, 2), epsilon, Node::type(node.input(0)).getElementType());
}

/// GroupNormalization. Before operator set 21 a group has one scale and one bias.
static LogicalResult importGroupNorm(Node &node) {
  double epsilon;
  if (failed(node.require(3)) || failed(checkChannels(node, 2)) ||
      failed(readEpsilon(node, epsilon)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t groups = node.intAttr("num_groups", 0), channels = type.getDimSize(1);
  if (groups < 1 || channels % groups != 0)
    return node.error(Twine(channels) + " channels do not split into " + Twine(groups) + " groups");
  Type stash = node.version >= 21 ? stashType(node) : type.getElementType();
  if (!stash)
    return failure();
  if (node.version >= 21)
    return normalizeGroups(node, groups, ofChannels(node, 1), ofChannels(node, 2), epsilon, stash);
  Value factors[2];
  for (int i : {0, 1}) {
    auto own = Node::type(node.input(1 + i));
    if (own.getShape() != ArrayRef<int64_t>{groups} ||
        own.getElementType() != type.getElementType())
      return node.error("operand " + Twine(1 + i) + " is " + Node::name(own) + " for " +
                        Twine(groups) + " groups");
    SmallVector<int64_t> shape(type.getRank(), 1);
    shape[1] = channels;
    factors[i] = node.reshape(
        node.broadcast(node.reshape(node.input(1 + i), {groups, 1}), {groups, channels / groups}),
        shape);
  }
  return normalizeGroups(node, groups, factors[0], factors[1], epsilon, stash);
}

/// Fails, with an error, if an operand is computed from a parameter.
static LogicalResult checkIsStatistic(Node &node, int operand) {
  std::string parameter = node.parameterBehind(node.input(operand));
  if (parameter.empty())
    return success();
  return node.error("operand " + Twine(operand) +
                    ", a running statistic, is computed from parameter '" + parameter +
                    "': the export may have merged the two, and training would change it. Export "
                    "with torch.onnx.export(..., optimize=False), or detach the statistic");
}

/// Returns mean and variance of each channel over the batch of all ranks, [1, C, 1..], and updates
/// the running ones, operands 3 and 4; null after an error.
static std::pair<Value, Value> batchStatistics(Node &node, const BatchNorm &norm) {
  auto type = Node::type(node.input(0));
  int64_t channels = type.getDimSize(1), count = channels ? type.getNumElements() / channels : 0;
  // ONNX writes the share of the old statistics, and PyTorch's exporter writes it in f32.
  double momentum = norm.momentum.value_or(1 - node.floatAttr("momentum", 0.9f));
  if (count < 2)
    return (void)node.error("statistics of the batch need more than one value per channel, and the "
                            "operand is " +
                            Node::name(type)),
           std::pair<Value, Value>();
  if (!(momentum >= 0 && momentum <= 1))
    return (void)node.error("the momentum must be in [0, 1]"), std::pair<Value, Value>();
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (d != 1)
      dims.push_back(d);
  auto average = [&](Value x) -> Value {
    x = x ? node.reduce(nn::ReduceKind::Sum, x, dims, /*keepDims=*/true) : Value();
    return x ? node.binary<nn::MulOp>(x, node.constant(Node::type(x), 1 / double(count))) : Value();
  };
  auto running = [&](Value batch, int operand, double factor) -> Value {
    Value state = node.input(operand);
    if (!norm.keepsStatistics)
      return batch;
    if (!batch || failed(checkOfChannels(node, operand)))
      return {};
    if (!node.isState(state))
      return (void)node.error("operand " + Twine(operand) +
                              ", a running statistic, is not a buffer of the model"),
             Value();
    auto shape = SmallVector<int64_t>(Node::type(batch).getShape());
    batch = node.reshape(batch, Node::type(state).getShape());
    batch = batch ? node.create<nn::RunningStatisticOp>(batch.getType(), batch, state,
                                                        node.builder.getF64FloatAttr(momentum),
                                                        node.builder.getF64FloatAttr(factor))
                  : Value();
    return batch ? node.reshape(batch, shape) : Value();
  };
  Value mean = average(node.input(0));
  Value centered = mean ? node.binary<nn::SubOp>(node.input(0), mean) : Value();
  Value variance = average(centered ? node.binary<nn::MulOp>(centered, centered) : Value());
  // Running variances of PyTorch are unbiased, those of ONNX are not.
  double unbiased = norm.isTraced || node.isFromPyTorch() ? double(count) / double(count - 1) : 1;
  mean = running(mean, 3, 1);
  return {mean, mean ? running(variance, 4, unbiased) : Value()};
}

/// BatchNormalization by given statistics, or in training by those of the batch.
static LogicalResult importBatchNorm(Node &node) {
  double epsilon;
  if (failed(node.require(5)) || failed(checkChannels(node, 2)) ||
      failed(readEpsilon(node, epsilon)))
    return failure();
  for (int i = 1; i < node.numOutputs(); ++i)
    if (node.isRead(i))
      return node.error("output " + Twine(i) +
                        ", a statistic, is read, and only output 0 is "
                        "supported");
  // Before operator set 14, four statistics follow the result.
  if (node.numOutputs() > (node.version < 14 ? 5 : 3))
    return node.error(Twine(node.numOutputs()) + " outputs are more than it has");
  Value scale = ofChannels(node, 1), bias = scale ? ofChannels(node, 2) : Value();
  if (!bias)
    return failure();
  node.flagAttr("training_mode", false), node.floatAttr("momentum", 0.9f); // both are read below
  BatchNorm norm = readBatchNorm(node.proto);
  Value mean, variance;
  if (norm.inTraining) {
    std::tie(mean, variance) = batchStatistics(node, norm);
  } else {
    if (failed(checkIsStatistic(node, 3)) || failed(checkIsStatistic(node, 4)))
      return failure();
    mean = ofChannels(node, 3);
    variance = mean ? ofChannels(node, 4) : Value();
  }
  if (!variance)
    return failure();
  variance = node.binary<nn::AddOp>(variance, node.constant(Node::type(variance), epsilon));
  Value factor =
      node.binary<nn::MulOp>(scale, variance ? node.unary<nn::RsqrtOp>(variance) : Value());
  Value centered = node.binary<nn::SubOp>(node.input(0), mean);
  node.set(0, node.binary<nn::AddOp>(node.binary<nn::MulOp>(centered, factor), bias));
  return success();
}

/// LpNormalization: x divided by the norm of its line; a line of zeros stays.
static LogicalResult importLpNorm(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  int64_t axis = node.intAttr("axis", -1), p = node.intAttr("p", 2);
  if (failed(node.normalize(axis, Node::type(x).getRank())))
    return failure();
  if (p != 1 && p != 2)
    return node.error("p must be 1 or 2");
  Value size = p == 1 ? node.unary<nn::AbsOp>(x) : node.binary<nn::MulOp>(x, x);
  size = node.reduce(nn::ReduceKind::Sum, size, {axis}, true);
  if (!size)
    return failure();
  // A line of zeros is divided by 1. The root has no gradient at 0, so it is not taken there.
  Value one = node.constant(Node::type(size), 1);
  Value none = node.binary(size, node.constant(Node::type(size), 0), nn::Predicate::EQ);
  size = none ? node.create<nn::SelectOp>(size.getType(), none, one, size) : Value();
  if (size && p == 2)
    size = node.unary<nn::SqrtOp>(size);
  node.set(0, node.binary<nn::DivOp>(x, size));
  return success();
}

void onnx::registerChannelNormOps(HandlerRegistry &r) {
  r.add("", "InstanceNormalization", 6, importInstanceNorm);
  r.add("", "GroupNormalization", 18, importGroupNorm);
  r.add("", "BatchNormalization", 9, importBatchNorm);
  r.add("", "LpNormalization", 1, importLpNorm);
}
