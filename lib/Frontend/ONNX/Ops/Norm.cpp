//===- Norm.cpp - Softmax and normalizations ------------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

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
}
