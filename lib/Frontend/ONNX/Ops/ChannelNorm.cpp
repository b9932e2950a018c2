//===- ChannelNorm.cpp - Normalizations of channels -----------------------===//
//
// Group and instance normalization are layer normalizations of other rows, with a
// scale and a bias for each channel.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Checks that the operand is [N, C, ..].
static LogicalResult checkChannels(Node &node, int64_t rank) {
  auto type = Node::type(node.input(0));
  if (type.getRank() >= rank)
    return success();
  return node.error("operand 0 must have a batch, channels{}, but is {}",
                    rank > 2 ? " and spatial dimensions" : "", type);
}

/// Returns numbers for channels as [1, C, 1..].
static Value asChannels(Node &node, Value numbers) {
  auto type = Node::type(node.input(0));
  return node.reshape(numbers, withSize(Sizes(type.getRank(), 1), 1, type.getDimSize(1)));
}

/// Checks that an operand has one number for each channel.
static LogicalResult checkOfChannels(Node &node, int operand) {
  auto type = Node::type(node.input(0)), own = Node::type(node.input(operand));
  if (own == type.clone({type.getDimSize(1)}))
    return success();
  return node.error("operand {} is {} for the {} channels of {}", operand, own, type.getDimSize(1),
                    type);
}

/// Returns an operand of one number for each channel as [1, C, 1..]; null after an error.
static Value ofChannels(Node &node, int operand) {
  return failed(checkOfChannels(node, operand)) ? Value() : asChannels(node, node.input(operand));
}

/// Normalizes each row of [rows.., width] in the type `stash`.
static Value normalized(Node &node, Value x, double epsilon, Type stash) {
  if (!x)
    return {};
  Type element = Node::type(x).getElementType();
  x = normConverts(element, stash) ? node.cast(x, stash) : x;
  if (!x)
    return {};
  auto row = Node::type(x).clone({Node::type(x).getShape().back()});
  Value scale = node.constant(row, 1), bias = node.constant(row, 0);
  return node.cast(layerNorm(node, x, scale, bias, epsilon)->getResult(0), element);
}

/// Normalizes [N, C, ..] over `groups` of channels, then scales and shifts.
static Value normalizeGroups(Node &node, int64_t groups, Value scale, Value bias, double epsilon,
                             Type stash) {
  auto type = Node::type(node.input(0));
  int64_t rows = type.getDimSize(0) * groups;
  Value x = node.reshape(node.input(0),
                         {type.getDimSize(0), groups, rows ? type.getNumElements() / rows : 0});
  x = node.reshape(normalized(node, x, epsilon, stash), type.getShape());
  return node.add(node.mul(x, scale), bias);
}

static Value importInstanceNorm(Node &node) {
  double epsilon;
  if (failed(checkChannels(node, 3)) || failed(readEpsilon(node, 1e-5f, epsilon)))
    return {};
  // PyTorch's exporter drops the update of running statistics.
  FxNode fx = readFxNode(node.proto);
  if (fx.positional.size() > 5 && StringRef(fx.target).starts_with(words::kInstanceNorm) &&
      fx.positional[3] != "None" && fx.positional[5] == "True")
    return node.error("an instance normalization that keeps running statistics is not supported: "
                      "evaluation would use those of each example. With "
                      "track_running_stats=False it does so in PyTorch, too, and trains the same "
                      "weights");
  auto type = Node::type(node.input(0));
  return normalizeGroups(node, type.getDimSize(1), ofChannels(node, 1), ofChannels(node, 2),
                         epsilon, type.getElementType());
}

/// Returns one number for each group as [1, C, 1..]; null after an error.
static Value ofGroups(Node &node, int operand, int64_t groups) {
  auto type = Node::type(node.input(0)), own = Node::type(node.input(operand));
  if (own != type.clone({groups}))
    return node.error("operand {} is {} for {} groups", operand, own, groups);
  Value column = node.reshape(node.input(operand), {groups, 1});
  return asChannels(node, node.broadcast(column, {groups, type.getDimSize(1) / groups}));
}

/// GroupNormalization. Before operator set 21 a group has one scale and one bias.
static Value importGroupNorm(Node &node) {
  double epsilon;
  if (failed(checkChannels(node, 2)) || failed(readEpsilon(node, 1e-5f, epsilon)))
    return {};
  auto type = Node::type(node.input(0));
  int64_t groups = node.intAttr("num_groups", 0), channels = type.getDimSize(1);
  if (groups < 1 || channels % groups != 0)
    return node.error("{} channels do not split into {} groups", channels, groups);
  bool ofEach = node.version >= 21;
  Type stash = ofEach ? stashType(node) : type.getElementType();
  Value scale = ofEach ? ofChannels(node, 1) : ofGroups(node, 1, groups);
  Value bias = ofEach ? ofChannels(node, 2) : ofGroups(node, 2, groups);
  return stash ? normalizeGroups(node, groups, scale, bias, epsilon, stash) : Value();
}

/// Returns a running statistic, an operand, as [1, C, 1..]; null after an error.
static Value runningStatistic(Node &node, int operand) {
  std::string parameter = node.parameterBehind(node.input(operand));
  if (parameter.empty())
    return ofChannels(node, operand);
  return node.error(
      "operand {}, a running statistic, is computed from parameter {}: the export may "
      "have merged the two, and training would change it. Export with "
      "torch.onnx.export(..., optimize=False), or detach the statistic",
      operand, parameter);
}

/// The mean and variance of channels, each [1, C, 1..]; null after an error.
struct Statistics {
  Value mean, variance;
};

/// Adds a statistic of the batch to the running one, an operand. Returns what the norm uses.
static Value running(Node &node, Value batch, int operand, double momentum, double factor) {
  Value state = node.input(operand);
  if (!batch || failed(checkOfChannels(node, operand)))
    return {};
  if (!node.isState(state))
    return node.error("operand {}, a running statistic, is not a buffer of the model", operand);
  Value flat = node.reshape(batch, Node::type(state).getShape());
  return flat
             ? node.reshape(node.create<nn::RunningStatisticOp>(
                                flat.getType(), flat, state, node.builder.getF64FloatAttr(momentum),
                                node.builder.getF64FloatAttr(factor)),
                            Node::type(batch).getShape())
             : Value();
}

/// Returns the statistics of the batch of all ranks, and updates the running ones, operands 3
/// and 4.
static Statistics batchStatistics(Node &node, const BatchNorm &norm) {
  auto type = Node::type(node.input(0));
  int64_t channels = type.getDimSize(1), count = channels ? type.getNumElements() / channels : 0;
  // ONNX writes the share of the old statistics, and PyTorch's exporter writes it in f32.
  double momentum = norm.momentum.value_or(1 - node.floatAttr("momentum", 0.9f));
  if (count < 2)
    return {node.error("statistics of the batch need more than one value per channel, and the "
                       "operand is {}",
                       type),
            {}};
  if (!(momentum >= 0 && momentum <= 1))
    return {node.error("the momentum must be in [0, 1]"), {}};
  Sizes dims = withoutDim(allDims(type.getRank()), 1);
  auto average = [&](Value x) {
    return node.mul(node.sum(x, dims, /*keepDims=*/true), 1 / double(count));
  };
  Value mean = average(node.input(0)), centered = node.sub(node.input(0), mean);
  Value variance = average(node.mul(centered, centered));
  if (!norm.keepsStatistics)
    return {mean, variance};
  // Running variances of PyTorch are unbiased, those of ONNX are not.
  double unbiased = norm.isTraced || node.isFromPyTorch() ? double(count) / double(count - 1) : 1;
  mean = running(node, mean, 3, momentum, 1);
  return {mean, mean ? running(node, variance, 4, momentum, unbiased) : Value()};
}

/// BatchNormalization by given statistics, or in training by those of the batch.
static LogicalResult importBatchNorm(Node &node) {
  double epsilon;
  if (failed(checkChannels(node, 2)) || failed(readEpsilon(node, 1e-5f, epsilon)))
    return failure();
  for (int i = 1; i < node.numOutputs(); ++i)
    if (node.isRead(i))
      return node.error("output {}, a statistic, is read, and only output 0 is supported", i);
  // Before operator set 14, four statistics follow the result.
  if (node.numOutputs() > (node.version < 14 ? 5 : 3))
    return node.error("{} outputs are more than it has", node.numOutputs());
  Value scale = ofChannels(node, 1), bias = ofChannels(node, 2);
  node.flagAttr("training_mode", false), node.floatAttr("momentum", 0.9f); // both are read below
  BatchNorm norm = readBatchNorm(node.proto);
  Statistics by = norm.inTraining
                      ? batchStatistics(node, norm)
                      : Statistics{runningStatistic(node, 3), runningStatistic(node, 4)};
  if (node.hasFailed())
    return failure();
  Value factor = node.mul(scale, node.rsqrt(node.add(by.variance, epsilon)));
  Value centered = node.sub(node.input(0), by.mean);
  node.set(0, node.add(node.mul(centered, factor), bias));
  return success();
}

/// LpNormalization: x divided by the norm of its line; a line of zeros stays.
static Value importLpNorm(Node &node) {
  Value x = node.input(0);
  int64_t p = node.intAttr("p", 2);
  if (p != 1 && p != 2)
    return node.error("p must be 1 or 2");
  Value size = node.sum(p == 1 ? node.abs(x) : node.mul(x, x), {node.axis()}, true);
  // A line of zeros is divided by 1. The root has no gradient at 0, so it is not taken there.
  size = node.select(node.binary(size, 0, nn::Predicate::EQ), 1, size);
  return node.div(x, p == 2 ? node.sqrt(size) : size);
}

void onnx::registerChannelNormOps(HandlerRegistry &r) {
  r.add("", "InstanceNormalization", 6, importInstanceNorm, needs(3) | floats(1));
  r.add("", "GroupNormalization", 18, importGroupNorm, needs(3) | floats(1));
  r.add("", "BatchNormalization", 9, importBatchNorm, needs(5) | floats(1));
  r.add("", "LpNormalization", 1, importLpNorm, floats(1) | defaultAxis(-1));
}
