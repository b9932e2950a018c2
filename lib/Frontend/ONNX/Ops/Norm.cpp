//===- Norm.cpp - Softmax and normalizations ------------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Tensor onnx::logSoftmax(Tensor x) {
  int64_t last = x.rank() - 1;
  Tensor peak = x.reduce(nn::ReduceKind::Max, {last}, true);
  Tensor shifted = x - peak.broadcast(x.shape());
  return shifted - log(exp(shifted).sum({last}, true));
}

FailureOr<Sizes> onnx::linesOf(Node &node, int64_t &axis) {
  Tensor x = node.input(0);
  axis = node.intAttr("axis", node.version < 13 ? 1 : -1);
  if (failed(node.normalize(axis, x.rank())))
    return failure();
  if (node.version >= 13 || axis == x.rank() - 1)
    return Sizes(x.shape());
  int64_t rows = llvm::product_of(x.shape().take_front(axis));
  axis = 1;
  return Sizes{rows, rows ? x.count() / rows : 0};
}

template <bool isLog> static Tensor importSoftmax(Node &node, Tensor x) {
  int64_t axis;
  FailureOr<Sizes> shape = linesOf(node, axis);
  if (failed(shape))
    return {};
  Sizes perm = dimAndLast(shape->size(), axis);
  Tensor turned = x.reshape(*shape).transpose(perm);
  Tensor result = isLog ? logSoftmax(turned) : unary<nn::SoftmaxOp>(turned);
  result = result.transpose(perm).reshape(x.shape());
  // For a loss over rows of classes.
  if (isLog && axis + 1 == x.rank() && x.shape() == ArrayRef<int64_t>(*shape))
    node.building.logSoftmaxOf[result] = x;
  return result;
}

/// Reads the type in which a norm computes. Returns null after an error.
static Type stashType(Node &node) {
  int64_t type = node.intAttr("stash_type", 1);
  std::string why;
  int32_t code = type == int32_t(type) ? int32_t(type) : 0;
  Type element = elementType(node.builder.getContext(), code, why);
  if (isa_and_nonnull<FloatType>(element))
    return element;
  return node.error("stash_type is {}; it must be 1 (float), 10 (float16), 11 (double) or 16 "
                    "(bfloat16)",
                    type);
}

/// Whether a norm of operands of type `element` that computes in `stash` must convert them. Norms
/// of 16-bit floats compute in f32 in any case.
static bool normConverts(Type element, Type stash) {
  return element != stash && !(is16BitFloat(element) && stash.isF32());
}

/// Results 1 and 2 of LayerNormalization and 1 of RMSNormalization: the mean and 1 / sqrt(variance
/// + epsilon) of each row, with sizes of 1. `norm` computes them, too.
static void setStatistics(Node &node, bool centered, Type stash, Operation *norm) {
  Tensor x = node.input(0).cast(stash);
  Sizes dims = dimRange(node.axis(), x.rank());
  double count = llvm::product_of(x.shape().drop_front(node.axis()));
  auto mean = [&](Tensor value) { return value.sum(dims, true) / count; };
  auto set = [&](int result, Tensor value) {
    if (!node.wants(result))
      return;
    node.set(result, value);
    node.building.normOf[value] = norm;
  };
  if (centered) {
    Tensor middle = mean(x);
    set(1, middle);
    x = x - middle;
  }
  if (int last = centered ? 2 : 1; node.wants(last))
    set(last, rsqrt(mean(x * x) + node.epsilon()));
}

/// Builds a normalization of each row of [rows.., width], the first operand; scale and bias follow.
/// Result 0 is the normalized rows, the others are statistics.
template <typename OpT> static Operation *buildNorm(Node &node, ValueRange operands) {
  auto type = cast<RankedTensorType>(operands[0].getType());
  Type element = type.getElementType();
  element = is16BitFloat(element) ? node.builder.getF32Type() : element;
  SmallVector<Type> results(operands.size(),
                            RankedTensorType::get(type.getShape().drop_back(), element));
  results[0] = type;
  NamedAttribute epsilon(node.builder.getStringAttr("epsilon"),
                         node.builder.getF64FloatAttr(node.epsilon()));
  Operation *norm = OpT::create(node.builder, node.loc, results, operands, {epsilon});
  node.adopt(norm);
  return norm;
}

/// A layer normalization, or one by the root of the mean square if there is no bias.
static Operation *buildAnyNorm(Node &node, Value x, Value scale, Value bias) {
  return bias ? buildNorm<nn::LayerNormOp>(node, {x, scale, bias})
              : buildNorm<nn::RmsNormOp>(node, {x, scale});
}

/// LayerNormalization of the dimensions from an axis on, and RMSNormalization (com.microsoft
/// SimplifiedLayerNormalization), which has no bias. If it computes in another type, the rows are
/// converted, and scale and bias apply to its result in their own type.
template <bool centered>
static LogicalResult importLayerNorm(Node &node, Tensor whole, Tensor given) {
  Type stash = stashType(node), element = whole.element();
  if (!stash)
    return failure();
  ArrayRef<int64_t> normalized = whole.shape().drop_front(node.axis());
  int64_t width = llvm::product_of(normalized);
  Tensor x = whole.reshape(joinedSizes({whole.shape().drop_back(normalized.size()), {width}}));
  // They may be broadcast from fewer elements.
  auto asRow = [&](Tensor value) { return value.broadcast(normalized).reshape({width}); };
  auto row = RankedTensorType::get({width}, element);
  Tensor scale = asRow(given), bias;
  if (centered)
    bias = node.input(2) ? asRow(node.input(2)) : node.constant(row, 0);
  if (!scale || scale.getType() != row || (centered && (!bias || bias.getType() != row)))
    return centered ? node.error("scale and bias must have the normalized dimensions' type")
                    : node.error("scale {} is not {}, the type of the normalized dimensions: cast "
                                 "it in the model",
                                 given, row);
  bool converts = normConverts(element, stash);
  x = converts ? x.cast(stash) : x;
  if (!x)
    return failure();
  auto own = RankedTensorType::get({width}, stash);
  Tensor one = converts ? node.constant(own, 1) : scale,
         zero = converts && bias ? node.constant(own, 0) : bias;
  Operation *norm = buildAnyNorm(node, x, one, zero);
  Tensor result(node, norm->getResult(0));
  if (converts) {
    result = result.cast(element) * scale;
    result = bias ? result + bias : result;
  }
  node.set(0, result.reshape(whole.shape()));
  if (node.wants(1) || (centered && node.wants(2)))
    setStatistics(node, centered, stash, norm);
  return success();
}

/// Normalizes the last dimension of a sum, and sets the result and, as another one, the sum. `bias`
/// is null for a norm without one.
static LogicalResult setNormOfSum(Node &node, Tensor sum, Tensor scale, Tensor bias,
                                  int sumResult) {
  auto row = sum.type().clone({sum.dim(-1)});
  if (scale.getType() != row || (bias && bias.getType() != row))
    return node.error("scale and bias must be {}", row);
  node.set(0, buildAnyNorm(node, sum, scale, bias)->getResult(0));
  node.set(sumResult, sum);
  return success();
}

/// SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: the norm of
/// operand 0 + skip + bias over the last dimension. Result 3 is the sum.
template <bool simplified>
static LogicalResult importSkipNorm(Node &node, Tensor x, Tensor skip, Tensor scale) {
  if (node.wants(1) || node.wants(2))
    return node.error("its results 1 and 2, statistics, are not supported");
  Tensor sum = x + skip;
  if (int more = simplified ? 3 : 4; node.has(more))
    sum = sum + node.input(more);
  if (!sum || sum.getType() != x.getType())
    return node.error("skip {} and the bias do not fit {}", skip, x);
  Tensor bias = simplified ? Tensor() : node.input(3);
  if (!simplified && !bias)
    bias = node.constant(x.type().clone({x.dim(-1)}), 0);
  return setNormOfSum(node, sum, scale, bias, 3);
}

/// EmbedLayerNormalization of com.microsoft: the norm of the sum of embeddings of words, positions
/// and segments. Result 1 are the lengths of a mask, result 2 is the sum.
static LogicalResult importEmbedNorm(Node &node) {
  if (node.wants(1))
    return node.error("its result of lengths is not supported");
  for (int i : {2, 3, 5, 6})
    if (!node.input(i))
      return node.error("operand {} is missing", i);
  for (int i : {2, 3, 4})
    if (node.input(i) && node.input(i).rank() != 2)
      return node.error("a table of embeddings must be [rows, features]; operand {} is {}", i,
                        node.input(i));
  Tensor sum = lookUp(node.input(2), node.input(0), 0);
  Tensor positions = node.input(8), table = node.input(3);
  int64_t length = node.input(0).dim(1), rows = table.dim(0);
  if (!positions && length > rows)
    return node.error("the table of positions has {} rows for {} positions", rows, length);
  sum = sum + (positions ? lookUp(table, positions, 0) : table.part(0, 0, length));
  if (node.input(4) && !node.input(1))
    return node.error("operand 1, the segments, is missing");
  if (node.input(4))
    sum = sum + lookUp(node.input(4), node.input(1), 0);
  return sum ? setNormOfSum(node, sum, node.input(5), node.input(6), 2) : failure();
}

// Group and instance normalization are layer normalizations of other rows, with a
// scale and a bias for each channel.

/// Checks that an operand has one number for each channel.
static LogicalResult checkOfChannels(Node &node, int operand) {
  Tensor x = node.input(0), own = node.input(operand);
  if (own.getType() == x.type().clone({x.dim(1)}))
    return success();
  return node.error("operand {} is {} for the {} channels of {}", operand, own, x.dim(1), x);
}

/// Returns an operand of one number for each channel as [1, C, 1..]; null after an error.
static Tensor ofChannels(Node &node, int operand) {
  Tensor x = node.input(0);
  return failed(checkOfChannels(node, operand))
             ? Tensor()
             : node.input(operand).reshape(withSize(Sizes(x.rank(), 1), 1, x.dim(1)));
}

/// Normalizes [N, C, ..] over `groups` of channels, in the type `stash`, then scales and shifts.
static Tensor normalizeGroups(Node &node, int64_t groups, Tensor scale, Tensor bias, Type stash) {
  Tensor whole = node.input(0);
  int64_t rows = whole.dim(0) * groups, width = rows ? whole.count() / rows : 0;
  Tensor x = whole.reshape({whole.dim(0), groups, width});
  x = normConverts(whole.element(), stash) ? x.cast(stash) : x;
  if (!x)
    return {};
  auto row = x.type().clone({width});
  Tensor one = node.constant(row, 1), zero = node.constant(row, 0);
  x = Tensor(node, buildNorm<nn::LayerNormOp>(node, {x, one, zero})->getResult(0))
          .cast(whole.element());
  return x.reshape(whole.shape()) * scale + bias;
}

static Tensor importInstanceNorm(Node &node, Tensor x) {
  // PyTorch's exporter drops the update of running statistics.
  FxNode fx = readFxNode(node.proto);
  const Argument *mean = fx.argument(3);
  if (StringRef(fx.target).starts_with(words::kInstanceNorm) && mean && !mean->isNone() &&
      fx.number(5) == 1.0)
    return node.error("an instance normalization that keeps running statistics is not supported: "
                      "evaluation would use those of each example. With "
                      "track_running_stats=False it does so in PyTorch, too, and trains the same "
                      "weights");
  Tensor scale = ofChannels(node, 1), bias = ofChannels(node, 2);
  return normalizeGroups(node, x.dim(1), scale, bias, x.element());
}

/// Returns one number for each group as [1, C, 1..]; null after an error.
static Tensor ofGroups(Node &node, int operand, int64_t groups) {
  Tensor x = node.input(0), own = node.input(operand);
  if (own.getType() != x.type().clone({groups}))
    return node.error("operand {} is {} for {} groups", operand, own, groups);
  Tensor wide = own.reshape({groups, 1}).broadcast({groups, x.dim(1) / groups});
  return wide.reshape(withSize(Sizes(x.rank(), 1), 1, x.dim(1)));
}

/// GroupNormalization. Before operator set 21 a group has one scale and one bias.
static Tensor importGroupNorm(Node &node) {
  int64_t groups = node.intAttr("num_groups", 0), channels = node.input(0).dim(1);
  if (groups < 1 || channels % groups != 0)
    return node.error("{} channels do not split into {} groups", channels, groups);
  bool ofEach = node.version >= 21;
  Type stash = ofEach ? stashType(node) : node.input(0).element();
  auto read = [&](int i) { return ofEach ? ofChannels(node, i) : ofGroups(node, i, groups); };
  Tensor scale = read(1), bias = read(2);
  return stash ? normalizeGroups(node, groups, scale, bias, stash) : Tensor();
}

/// Returns a running statistic, an operand, as [1, C, 1..]; null after an error.
static Tensor runningStatistic(Node &node, int operand) {
  std::string parameter = parameterBehind(node.building.states, node.input(operand));
  if (parameter.empty())
    return ofChannels(node, operand);
  return node.error(
      "operand {}, a running statistic, is computed from parameter {}: the export may "
      "have merged the two, and training would change it. Export with "
      "torch.onnx.export(..., optimize=False), or detach the statistic",
      operand, parameter);
}

/// Adds a statistic of the batch to the running one, an operand. Returns what the norm uses.
static Tensor running(Node &node, Tensor batch, int operand, double momentum, double factor) {
  Tensor state = node.input(operand);
  if (!batch || failed(checkOfChannels(node, operand)))
    return {};
  if (!node.building.states.contains(state))
    return node.error("operand {}, a running statistic, is not a buffer of the model", operand);
  Tensor flat = batch.reshape(state.shape());
  return node
      .create<nn::RunningStatisticOp>(state.getType(), flat, state, APFloat(momentum),
                                      APFloat(factor))
      .reshape(batch.shape());
}

/// Returns the mean and the variance of the batch of all ranks, each [1, C, 1..], and updates the
/// running ones, operands 3 and 4. Null after an error.
static std::pair<Tensor, Tensor> batchStatistics(Node &node, const BatchNorm &norm) {
  Tensor x = node.input(0);
  int64_t count = x.dim(1) ? x.count() / x.dim(1) : 0;
  // ONNX writes the share of the old statistics, and PyTorch's exporter writes it in f32.
  double momentum = norm.momentum.value_or(1 - node.floatAttr("momentum", 0.9f));
  if (count < 2)
    (void)node.error("statistics of the batch need more than one value per channel, and the "
                     "operand is {}",
                     x);
  if (!(momentum >= 0 && momentum <= 1))
    (void)node.error("the momentum must be in [0, 1]");
  if (node.hasFailed())
    return {};
  Sizes dims = withoutDim(allDims(x.rank()), 1);
  auto average = [&](Tensor x) { return x.sum(dims, /*keepDims=*/true) * (1 / double(count)); };
  Tensor mean = average(x), centered = x - mean, variance = average(centered * centered);
  if (!norm.keepsStatistics)
    return {mean, variance};
  // Running variances of PyTorch are unbiased, those of ONNX are not.
  double unbiased = norm.isTraced || node.isFromPyTorch() ? double(count) / double(count - 1) : 1;
  mean = running(node, mean, 3, momentum, 1);
  return {mean, running(node, variance, 4, momentum, unbiased)};
}

/// BatchNormalization by given statistics, or in training by those of the batch.
static Tensor importBatchNorm(Node &node) {
  for (int i = 1; i < node.numOutputs(); ++i)
    if (node.isRead(i))
      return node.error("output {}, a statistic, is read, and only output 0 is supported", i);
  // Before operator set 14, four statistics follow the result.
  if (node.numOutputs() > (node.version < 14 ? 5 : 3))
    return node.error("{} outputs are more than it has", node.numOutputs());
  Tensor scale = ofChannels(node, 1), bias = ofChannels(node, 2);
  node.flagAttr("training_mode", false), node.floatAttr("momentum", 0.9f); // both are read below
  BatchNorm norm = readBatchNorm(node.proto);
  auto [mean, variance] = norm.inTraining
                              ? batchStatistics(node, norm)
                              : std::pair{runningStatistic(node, 3), runningStatistic(node, 4)};
  Tensor factor = scale * rsqrt(variance + node.epsilon()), centered = node.input(0) - mean;
  return centered * factor + bias;
}

/// LpNormalization: x divided by the norm of its line; a line of zeros stays.
static Tensor importLpNorm(Node &node, Tensor x) {
  int64_t p = node.intAttr("p", 2);
  if (p != 1 && p != 2)
    return node.error("p must be 1 or 2");
  Tensor size = (p == 1 ? abs(x) : x * x).sum({node.axis()}, true);
  // A line of zeros is divided by 1. The root has no gradient at 0, so it is not taken there.
  size = select(equal(size, 0), 1, size);
  return x / (p == 2 ? sqrt(size) : size);
}

void onnx::registerNormOps(HandlerRegistry &r) {
  r.add("", "Softmax", 1, importSoftmax<false>, floats(1) | rank(1));
  r.add("", "LogSoftmax", 1, importSoftmax<true>, floats(1) | rank(1));
  constexpr Needs norm = needs(2) | floats(1) | defaultAxis(-1) | epsilon(1e-5f);
  r.add("", "LayerNormalization", 1, importLayerNorm<true>, norm);
  r.add("", "RMSNormalization", 23, importLayerNorm<false>, norm);
  r.add("com.microsoft", "SimplifiedLayerNormalization", 1, importLayerNorm<false>, norm);
  // ONNX Runtime writes it so.
  r.add("", "SimplifiedLayerNormalization", 1, importLayerNorm<false>, norm);
  constexpr Needs sum = needs(3) | floats(1) | rank(1) | epsilon(1e-12f);
  r.add("com.microsoft", "EmbedLayerNormalization", 1, importEmbedNorm,
        rank(2, 2) | epsilon(1e-12f));
  r.add("com.microsoft", "SkipLayerNormalization", 1, importSkipNorm<false>, sum);
  r.add("com.microsoft", "SkipSimplifiedLayerNormalization", 1, importSkipNorm<true>, sum);
  constexpr Needs channels = needs(3) | floats(1) | epsilon(1e-5f);
  r.add("", "InstanceNormalization", 6, importInstanceNorm, channels | rank(3));
  r.add("", "GroupNormalization", 18, importGroupNorm, channels | rank(2));
  r.add("", "BatchNormalization", 9, importBatchNorm, channels | needs(5) | rank(2));
  r.add("", "LpNormalization", 1, importLpNorm, floats(1) | defaultAxis(-1));
}
