//===- Norm.cpp - Softmax and normalizations ------------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/Trace.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Applies `body` with dimension `axis` last.
static Value withLast(Node &node, Value value, int64_t axis,
                      llvm::function_ref<Value(Value)> body) {
  Sizes perm = dimAndLast(Node::type(value).getRank(), axis);
  Value turned = node.transpose(value, perm);
  return turned ? node.transpose(body(turned), perm) : Value();
}

Value onnx::logSoftmax(Node &node, Value x) {
  if (!x)
    return {};
  int64_t last = Node::type(x).getRank() - 1;
  Value peak = node.reduce(nn::ReduceKind::Max, x, {last}, true);
  Value shifted = node.sub(x, node.broadcast(peak, Node::type(x).getShape()));
  return node.sub(shifted, node.log(node.sum(node.exp(shifted), {last}, true)));
}

FailureOr<SmallVector<int64_t>> onnx::linesOf(Node &node, int64_t &axis) {
  auto type = Node::type(node.input(0));
  axis = node.intAttr("axis", node.version < 13 ? 1 : -1);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  if (node.version >= 13 || axis == type.getRank() - 1)
    return SmallVector<int64_t>(type.getShape());
  int64_t rows = llvm::product_of(type.getShape().take_front(axis));
  axis = 1;
  return SmallVector<int64_t>{rows, rows ? type.getNumElements() / rows : 0};
}

template <bool isLog> static Value importSoftmax(Node &node) {
  Value x = node.input(0);
  if (Node::type(x).getRank() == 0)
    return node.error("operand 0 is a scalar: it must have at least one dimension");
  int64_t axis;
  FailureOr<SmallVector<int64_t>> shape = linesOf(node, axis);
  if (failed(shape))
    return {};
  Value result = withLast(node, node.reshape(x, *shape), axis, [&](Value value) {
    return isLog ? logSoftmax(node, value) : node.unary<nn::SoftmaxOp>(value);
  });
  result = node.reshape(result, Node::type(x).getShape());
  // For a loss over rows of classes.
  if (isLog && axis + 1 == Node::type(x).getRank() &&
      Node::type(x).getShape() == ArrayRef<int64_t>(*shape))
    node.building.logSoftmaxOf[result] = x;
  return result;
}

LogicalResult onnx::readEpsilon(Node &node, float missing, double &epsilon) {
  epsilon = node.floatAttr("epsilon", missing);
  return std::isfinite(epsilon) && epsilon >= 0
             ? success()
             : LogicalResult(node.error("epsilon must be finite and not negative"));
}

Type onnx::stashType(Node &node) {
  int64_t type = node.intAttr("stash_type", 1);
  std::string why;
  Type element = type == int64_t(int32_t(type))
                     ? elementType(node.builder.getContext(), int32_t(type), why)
                     : Type();
  if (isa_and_nonnull<FloatType>(element))
    return element;
  return node.error("stash_type is {}; it must be 1 (float), 10 (float16), 11 (double) or 16 "
                    "(bfloat16)",
                    type);
}

bool onnx::normConverts(Type element, Type stash) {
  return element != stash && !(is16BitFloat(element) && stash.isF32());
}

/// Results 1 and 2 of LayerNormalization and 1 of RMSNormalization: the mean and 1 / sqrt(variance
/// + epsilon) of each row, with sizes of 1. `norm` computes them, too.
static void setStatistics(Node &node, int64_t axis, double epsilon, bool centered, Type stash,
                          Operation *norm) {
  Value x = node.cast(node.input(0), stash);
  auto type = Node::type(x);
  double count = llvm::product_of(type.getShape().drop_front(axis));
  auto mean = [&](Value value) {
    return node.div(node.sum(value, llvm::to_vector(llvm::seq(axis, type.getRank())), true), count);
  };
  auto set = [&](int result, Value value) {
    if (!node.wants(result))
      return;
    node.set(result, value);
    node.building.normOf[value] = norm;
  };
  if (centered) {
    Value middle = mean(x);
    set(1, middle);
    x = node.sub(x, middle);
  }
  if (int last = centered ? 2 : 1; node.wants(last))
    set(last, node.rsqrt(node.add(mean(node.mul(x, x)), epsilon)));
}

RankedTensorType onnx::statisticsType(RankedTensorType rows) {
  Type element = rows.getElementType();
  if (is16BitFloat(element))
    element = Float32Type::get(rows.getContext());
  return RankedTensorType::get(rows.getShape().drop_back(), element);
}

Operation *onnx::layerNorm(Node &node, Value x, Value scale, Value bias, double epsilon) {
  auto type = Node::type(x), stats = statisticsType(type);
  auto op = nn::LayerNormOp::create(node.builder, node.loc, TypeRange{type, stats, stats}, x, scale,
                                    bias, node.builder.getF64FloatAttr(epsilon));
  node.adopt(op);
  return op;
}

static Operation *rmsNorm(Node &node, Value x, Value scale, double epsilon) {
  auto type = Node::type(x);
  auto op = nn::RmsNormOp::create(node.builder, node.loc, TypeRange{type, statisticsType(type)}, x,
                                  scale, node.builder.getF64FloatAttr(epsilon));
  node.adopt(op);
  return op;
}

/// LayerNormalization of the dimensions from an axis on, and RMSNormalization (com.microsoft
/// SimplifiedLayerNormalization), which has no bias. If it computes in another type, the rows are
/// converted, and scale and bias apply to its result in their own type.
template <bool centered> static LogicalResult importLayerNorm(Node &node) {
  auto type = Node::type(node.input(0));
  int64_t axis = node.axis();
  double epsilon;
  Type stash = stashType(node);
  if (!stash || failed(readEpsilon(node, 1e-5f, epsilon)))
    return failure();
  ArrayRef<int64_t> normalized = type.getShape().drop_front(axis);
  int64_t width = llvm::product_of(normalized);
  SmallVector<int64_t> rows(type.getShape().take_front(axis));
  rows.push_back(width);
  Value x = node.reshape(node.input(0), rows);
  // They may be broadcast from fewer elements.
  auto asRow = [&](Value value) {
    return node.reshape(node.broadcast(value, normalized), {width});
  };
  auto row = RankedTensorType::get({width}, type.getElementType());
  Value scale = asRow(node.input(1)), bias;
  if (centered)
    bias = node.input(2) ? asRow(node.input(2)) : node.constant(row, 0);
  if (!scale || scale.getType() != row || (centered && (!bias || bias.getType() != row)))
    return centered ? node.error("scale and bias must have the normalized dimensions' type")
                    : node.error("scale {} is not {}, the type of the normalized dimensions: cast "
                                 "it in the model",
                                 node.input(1), row);
  bool converts = normConverts(type.getElementType(), stash);
  x = converts ? node.cast(x, stash) : x;
  if (!x)
    return failure();
  auto own = RankedTensorType::get({width}, stash);
  Value one = converts ? node.constant(own, 1) : scale,
        zero = converts && bias ? node.constant(own, 0) : bias;
  Operation *norm =
      centered ? layerNorm(node, x, one, zero, epsilon) : rmsNorm(node, x, one, epsilon);
  Value result = norm->getResult(0);
  if (converts) {
    result = node.mul(node.cast(result, type.getElementType()), scale);
    result = bias ? node.add(result, bias) : result;
  }
  node.set(0, node.reshape(result, type.getShape()));
  if (node.wants(1) || (centered && node.wants(2)))
    setStatistics(node, axis, epsilon, centered, stash, norm);
  return success();
}

/// Normalizes the last dimension of a sum, and sets the result and, as another one, the sum. `bias`
/// is null for a norm without one.
static LogicalResult setNormOfSum(Node &node, Value sum, Value scale, Value bias, double epsilon,
                                  int sumResult) {
  auto row = Node::type(sum).clone({Node::type(sum).getShape().back()});
  if (scale.getType() != row || (bias && bias.getType() != row))
    return node.error("scale and bias must be {}", row);
  Operation *norm =
      bias ? layerNorm(node, sum, scale, bias, epsilon) : rmsNorm(node, sum, scale, epsilon);
  node.set(0, norm->getResult(0));
  node.set(sumResult, sum);
  return success();
}

/// SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: the norm of
/// operand 0 + skip + bias over the last dimension. Result 3 is the sum.
template <bool simplified> static LogicalResult importSkipNorm(Node &node) {
  if (node.wants(1) || node.wants(2))
    return node.error("its results 1 and 2, statistics, are not supported");
  auto type = Node::type(node.input(0));
  double epsilon;
  if (failed(readEpsilon(node, 1e-12f, epsilon)))
    return failure();
  if (type.getRank() < 1)
    return node.error("operand 0 is a scalar: it must have at least one dimension");
  Value sum = node.add(node.input(0), node.input(1));
  if (int more = simplified ? 3 : 4; node.has(more))
    sum = node.add(sum, node.input(more));
  if (!sum || sum.getType() != type)
    return node.error("skip {} and the bias do not fit {}", node.input(1), type);
  Value bias = simplified ? Value() : node.input(3);
  if (!simplified && !bias)
    bias = node.constant(type.clone({type.getShape().back()}), 0);
  return setNormOfSum(node, sum, node.input(2), bias, epsilon, 3);
}

/// EmbedLayerNormalization of com.microsoft: the norm of the sum of embeddings of words, positions
/// and segments. Result 1 are the lengths of a mask, result 2 is the sum.
static LogicalResult importEmbedNorm(Node &node) {
  if (node.wants(1))
    return node.error("its result of lengths is not supported");
  for (int i : {0, 2, 3, 5, 6})
    if (!node.input(i))
      return node.error("operand {} is missing", i);
  auto ids = Node::type(node.input(0));
  for (int i : {2, 3, 4})
    if (node.input(i) && Node::type(node.input(i)).getRank() != 2)
      return node.error("a table of embeddings must be [rows, features]; operand {} is {}", i,
                        node.input(i));
  if (ids.getRank() != 2)
    return node.error("tokens must be [batch, positions]; they are {}", ids);
  double epsilon;
  if (failed(readEpsilon(node, 1e-12f, epsilon)))
    return failure();
  Value sum = lookUp(node, node.input(2), node.input(0), 0);
  Value positions = node.input(8), table = node.input(3);
  int64_t length = ids.getDimSize(1), rows = Node::type(table).getDimSize(0);
  if (!positions && length > rows)
    return node.error("the table of positions has {} rows for {} positions", rows, length);
  sum =
      node.add(sum, positions ? lookUp(node, table, positions, 0) : node.part(table, 0, 0, length));
  if (node.input(4) && !node.input(1))
    return node.error("operand 1, the segments, is missing");
  if (node.input(4))
    sum = node.add(sum, lookUp(node, node.input(4), node.input(1), 0));
  return sum ? setNormOfSum(node, sum, node.input(5), node.input(6), epsilon, 2) : failure();
}

//===----------------------------------------------------------------------===//
// Normalizations of channels
//===----------------------------------------------------------------------===//

// Group and instance normalization are layer normalizations of other rows, with a
// scale and a bias for each channel.

LogicalResult onnx::checkChannels(Node &node, int64_t rank) {
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
  std::string parameter = parameterBehind(node.building.states, node.input(operand));
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
  if (!node.building.states.contains(state))
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

void onnx::registerNormOps(HandlerRegistry &r) {
  r.add("", "Softmax", 1, importSoftmax<false>, floats(1));
  r.add("", "LogSoftmax", 1, importSoftmax<true>, floats(1));
  constexpr Needs norm = needs(2) | floats(1) | defaultAxis(-1), sum = needs(3) | floats(1);
  r.add("", "LayerNormalization", 1, importLayerNorm<true>, norm);
  r.add("", "RMSNormalization", 23, importLayerNorm<false>, norm);
  r.add("com.microsoft", "SimplifiedLayerNormalization", 1, importLayerNorm<false>, norm);
  // ONNX Runtime writes it so.
  r.add("", "SimplifiedLayerNormalization", 1, importLayerNorm<false>, norm);
  r.add("com.microsoft", "EmbedLayerNormalization", 1, importEmbedNorm);
  r.add("com.microsoft", "SkipLayerNormalization", 1, importSkipNorm<false>, sum);
  r.add("com.microsoft", "SkipSimplifiedLayerNormalization", 1, importSkipNorm<true>, sum);
  r.add("", "InstanceNormalization", 6, importInstanceNorm, needs(3) | floats(1));
  r.add("", "GroupNormalization", 18, importGroupNorm, needs(3) | floats(1));
  r.add("", "BatchNormalization", 9, importBatchNorm, needs(5) | floats(1));
  r.add("", "LpNormalization", 1, importLpNorm, floats(1) | defaultAxis(-1));
}
