//===- Norm.cpp - Softmax and normalizations ------------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Applies `body` with dimension `axis` last.
static Value withLast(Node &node, Value value, int64_t axis,
                      llvm::function_ref<Value(Value)> body) {
  int64_t rank = Node::type(value).getRank();
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(perm[axis], perm[rank - 1]);
  Value turned = node.transpose(value, perm);
  return turned ? node.transpose(body(turned), perm) : Value();
}

Value onnx::logSoftmax(Node &node, Value x) {
  int64_t last = Node::type(x).getRank() - 1;
  Value peak =
      node.broadcast(node.reduce(nn::ReduceKind::Max, x, {last}, true), Node::type(x).getShape());
  Value shifted = node.binary<nn::SubOp>(x, peak);
  Value sum = node.reduce(nn::ReduceKind::Sum, shifted ? node.unary<nn::ExpOp>(shifted) : Value(),
                          {last}, true);
  return sum ? node.binary<nn::SubOp>(shifted, node.unary<nn::LogOp>(sum)) : Value();
}

template <bool isLog> static LogicalResult importSoftmax(Node &node) {
  if (failed(node.require(1)))
    return failure();
  Value x = node.input(0);
  auto type = Node::type(x);
  // Before opset 13 the default axis is 1 and all later dimensions are one row.
  int64_t axis = node.intAttr("axis", node.version < 13 ? 1 : -1);
  if (failed(node.requireFloats(1)))
    return failure();
  if (type.getRank() == 0)
    return node.error("operand 0 is a scalar: it must have at least one dimension");
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  auto apply = [&](Value value) {
    return isLog ? logSoftmax(node, value) : node.unary<nn::SoftmaxOp>(value);
  };
  Value result;
  if (node.version < 13 && axis != type.getRank() - 1) {
    int64_t rows = 1;
    for (int64_t i = 0; i < axis; ++i)
      rows *= type.getDimSize(i);
    Value flat = node.reshape(x, {rows, type.getNumElements() / std::max<int64_t>(rows, 1)});
    result = flat ? node.reshape(apply(flat), type.getShape()) : Value();
  } else {
    result = withLast(node, x, axis, apply);
  }
  // For a loss over rows of classes.
  if (isLog && axis == type.getRank() - 1)
    node.building.logSoftmaxOf[result] = x;
  node.set(0, result);
  return success();
}

/// Flattens dimensions from `axis` on into one row.
static LogicalResult rowsFrom(Node &node, int64_t axis, Value &x, int64_t &width) {
  auto type = Node::type(x);
  if (failed(node.requireFloats(1)))
    return failure();
  width = 1;
  for (int64_t size : type.getShape().drop_front(axis))
    width *= size;
  SmallVector<int64_t> shape(type.getShape().take_front(axis));
  shape.push_back(width);
  x = node.reshape(x, shape);
  return success();
}

static LogicalResult checkEpsilon(Node &node, double epsilon) {
  return std::isfinite(epsilon) && epsilon >= 0
             ? success()
             : node.error("epsilon must be finite and not negative");
}

Type onnx::stashType(Node &node) {
  int64_t type = node.intAttr("stash_type", 1);
  std::string why;
  Type element = type == int64_t(int32_t(type))
                     ? elementType(node.builder.getContext(), int32_t(type), why)
                     : Type();
  if (isa_and_nonnull<FloatType>(element))
    return element;
  (void)node.error("stash_type is " + Twine(type) + "; it must be 1 (float), 10 (float16), " +
                   "11 (double) or 16 (bfloat16)");
  return {};
}

bool onnx::normConverts(Type element, Type stash) {
  return element != stash && !(is16BitFloat(element) && stash.isF32());
}

/// The scale or bias of a norm as one row; it may be broadcast from fewer
/// elements.
static Value rowOperand(Node &node, Value value, ArrayRef<int64_t> normalized, int64_t width) {
  return node.reshape(node.broadcast(value, normalized), {width});
}

/// Results 1 and 2 of LayerNormalization and 1 of RMSNormalization: the mean and 1 / sqrt(variance
/// + epsilon) of each row, with sizes of 1. `norm` computes them, too.
static void setStatistics(Node &node, int64_t axis, double epsilon, bool centered, Type stash,
                          Operation *norm) {
  Value x = node.cast(node.input(0), stash);
  auto type = Node::type(x);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq(axis, type.getRank()));
  double count = 1;
  for (int64_t dim : dims)
    count *= type.getDimSize(dim);
  auto mean = [&](Value value) {
    Value sum = node.reduce(nn::ReduceKind::Sum, value, dims, true);
    return sum ? node.binary<nn::DivOp>(sum, node.constant(Node::type(sum), count)) : Value();
  };
  if (centered) {
    Value middle = mean(x);
    if (node.wants(1)) {
      node.set(1, middle);
      node.building.normOf[middle] = norm;
    }
    x = node.binary<nn::SubOp>(x, middle);
  }
  int result = centered ? 2 : 1;
  if (!node.wants(result))
    return;
  Value variance = mean(node.binary<nn::MulOp>(x, x));
  variance = variance
                 ? node.binary<nn::AddOp>(variance, node.constant(Node::type(variance), epsilon))
                 : Value();
  Value rstd = variance ? node.unary<nn::RsqrtOp>(variance) : Value();
  node.set(result, rstd);
  node.building.normOf[rstd] = norm;
}

RankedTensorType onnx::statisticsType(RankedTensorType rows) {
  Type element = rows.getElementType();
  if (is16BitFloat(element))
    element = Float32Type::get(rows.getContext());
  return RankedTensorType::get(rows.getShape().drop_back(), element);
}

Value onnx::inStash(Node &node, Value x, Type stash, Value scale, Value bias,
                    llvm::function_ref<Value(Value, Value, Value)> norm) {
  Type element = Node::type(x).getElementType();
  if (!normConverts(element, stash))
    return norm(x, scale, bias);
  auto row = RankedTensorType::get({Node::type(x).getShape().back()}, stash);
  x = node.cast(x, stash);
  if (!x)
    return {};
  Value result = norm(x, node.constant(row, 1), bias ? node.constant(row, 0) : Value());
  result = node.binary<nn::MulOp>(node.cast(result, element), scale);
  return bias ? node.binary<nn::AddOp>(result, bias) : result;
}

static LogicalResult importLayerNorm(Node &node) {
  if (failed(node.require(2)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", -1), width;
  double epsilon = node.floatAttr("epsilon", 1e-5f);
  Value x = node.input(0);
  Type stash = stashType(node);
  if (!stash || failed(node.normalize(axis, type.getRank())) ||
      failed(checkEpsilon(node, epsilon)) || failed(rowsFrom(node, axis, x, width)))
    return failure();
  ArrayRef<int64_t> normalized = type.getShape().drop_front(axis);
  auto row = RankedTensorType::get({width}, type.getElementType());
  Value scale = rowOperand(node, node.input(1), normalized, width);
  Value bias =
      node.input(2) ? rowOperand(node, node.input(2), normalized, width) : node.constant(row, 0);
  if (!scale || !bias || scale.getType() != row || bias.getType() != row)
    return node.error("scale and bias must have the normalized dimensions' type");
  Operation *norm = nullptr;
  Value result = inStash(node, x, stash, scale, bias, [&](Value x, Value scale, Value bias) {
    auto own = Node::type(x);
    auto stats = statisticsType(own);
    auto op = nn::LayerNormOp::create(node.builder, node.loc, TypeRange{own, stats, stats}, x,
                                      scale, bias, node.builder.getF64FloatAttr(epsilon));
    node.adopt(op);
    norm = op;
    return Value(op.getResult());
  });
  node.set(0, node.reshape(result, type.getShape()));
  if (node.wants(1) || node.wants(2))
    setStatistics(node, axis, epsilon, /*centered=*/true, stash, norm);
  return success();
}

/// RMSNormalization and com.microsoft SimplifiedLayerNormalization.
static LogicalResult importRmsNorm(Node &node) {
  if (failed(node.require(2)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", -1), width;
  double epsilon = node.floatAttr("epsilon", 1e-5f);
  Value x = node.input(0);
  Type stash = stashType(node);
  if (!stash || failed(node.normalize(axis, type.getRank())) ||
      failed(checkEpsilon(node, epsilon)) || failed(rowsFrom(node, axis, x, width)))
    return failure();
  auto row = RankedTensorType::get({width}, type.getElementType());
  Value scale = rowOperand(node, node.input(1), type.getShape().drop_front(axis), width);
  if (!scale || scale.getType() != row)
    return node.error("scale " + Node::name(node.input(1).getType()) + " is not " +
                      Node::name(row) +
                      ", the type of the normalized dimensions: cast it in the model");
  Operation *norm = nullptr;
  Value result = inStash(node, x, stash, scale, {}, [&](Value x, Value scale, Value) {
    auto own = Node::type(x);
    auto op = nn::RmsNormOp::create(node.builder, node.loc, TypeRange{own, statisticsType(own)}, x,
                                    scale, node.builder.getF64FloatAttr(epsilon));
    node.adopt(op);
    norm = op;
    return Value(op.getResult());
  });
  node.set(0, node.reshape(result, type.getShape()));
  if (node.wants(1))
    setStatistics(node, axis, epsilon, /*centered=*/false, stash, norm);
  return success();
}

/// Adds `skip` and an optional bias to operand 0, which has the type of the sum.
static Value withSkip(Node &node, int bias) {
  auto type = Node::type(node.input(0));
  Value sum = node.binary<nn::AddOp>(node.input(0), node.input(1));
  if (sum && node.has(bias))
    sum = node.binary<nn::AddOp>(sum, node.input(bias));
  if (sum && Node::type(sum) != type) {
    (void)node.error("skip " + Node::name(node.input(1).getType()) + " and the bias do not fit " +
                     Node::name(type));
    return {};
  }
  return sum;
}

/// SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: the norm of
/// operand 0 + skip + bias over the last dimension. Result 3 is the sum.
template <bool simplified> static LogicalResult importSkipNorm(Node &node) {
  if (failed(node.require(3)))
    return failure();
  if (node.wants(1) || node.wants(2))
    return node.error("its results 1 and 2, statistics, are not supported");
  double epsilon = node.floatAttr("epsilon", 1e-12f);
  auto type = Node::type(node.input(0));
  if (failed(node.requireFloats(1)))
    return failure();
  if (type.getRank() < 1)
    return node.error("operand 0 is a scalar: it must have at least one dimension");
  Value sum = withSkip(node, simplified ? 3 : 4);
  if (!sum || failed(checkEpsilon(node, epsilon)))
    return failure();
  int64_t width = type.getShape().back();
  auto row = RankedTensorType::get({width}, type.getElementType());
  auto stats = statisticsType(type);
  Value scale = node.input(2), bias = simplified ? Value() : node.input(3);
  bias = bias ? bias : node.constant(row, 0);
  if (scale.getType() != row || bias.getType() != row)
    return node.error("scale and bias must be " + Node::name(row));
  FloatAttr attr = node.builder.getF64FloatAttr(epsilon);
  Operation *op;
  if (simplified)
    op = nn::RmsNormOp::create(node.builder, node.loc, TypeRange{type, stats}, sum, scale, attr);
  else
    op = nn::LayerNormOp::create(node.builder, node.loc, TypeRange{type, stats, stats}, sum, scale,
                                 bias, attr);
  node.adopt(op);
  node.set(0, op->getResult(0));
  node.set(3, sum);
  return success();
}

/// EmbedLayerNormalization of com.microsoft: the norm of the sum of embeddings of words, positions
/// and segments. Result 1 are the lengths of a mask, result 2 is the sum.
static LogicalResult importEmbedNorm(Node &node) {
  if (node.wants(1))
    return node.error("its result of lengths is not supported");
  for (int i : {0, 2, 3, 5, 6})
    if (!node.input(i))
      return node.error("operand " + Twine(i) + " is missing");
  auto ids = Node::type(node.input(0));
  for (int i : {2, 3, 4})
    if (node.input(i) && Node::type(node.input(i)).getRank() != 2)
      return node.error("a table of embeddings must be [rows, features]; operand " + Twine(i) +
                        " is " + Node::name(node.input(i).getType()));
  if (ids.getRank() != 2)
    return node.error("tokens must be [batch, positions]; they are " + Node::name(ids));
  double epsilon = node.floatAttr("epsilon", 1e-12f);
  if (failed(checkEpsilon(node, epsilon)))
    return failure();
  Value sum = lookUp(node, node.input(2), node.input(0), 0);
  Value positions = node.input(8), table = node.input(3);
  int64_t length = ids.getDimSize(1), width = Node::type(table).getDimSize(1);
  if (!positions && length > Node::type(table).getDimSize(0))
    return node.error("the table of positions has " + Twine(Node::type(table).getDimSize(0)) +
                      " rows for " + Twine(length) + " positions");
  Value places = positions ? lookUp(node, table, positions, 0)
                           : node.slice(table, {0, 0}, {length, width}, {1, 1});
  sum = sum && places ? node.binary<nn::AddOp>(sum, places) : Value();
  if (sum && node.input(4)) {
    Value segments = node.input(1);
    if (!segments)
      return node.error("operand 1, the segments, is missing");
    Value kinds = lookUp(node, node.input(4), segments, 0);
    sum = kinds ? node.binary<nn::AddOp>(sum, kinds) : Value();
  }
  if (!sum)
    return failure();
  auto type = Node::type(sum);
  auto row = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  if (node.input(5).getType() != row || node.input(6).getType() != row)
    return node.error("scale and bias must be " + Node::name(row));
  auto stats = statisticsType(type);
  auto op =
      nn::LayerNormOp::create(node.builder, node.loc, TypeRange{type, stats, stats}, sum,
                              node.input(5), node.input(6), node.builder.getF64FloatAttr(epsilon));
  node.adopt(op);
  node.set(0, op.getResult());
  node.set(2, sum);
  return success();
}

void onnx::registerNormOps(HandlerRegistry &r) {
  r.add("", "Softmax", 1, importSoftmax<false>);
  r.add("", "LogSoftmax", 1, importSoftmax<true>);
  r.add("", "LayerNormalization", 1, importLayerNorm);
  r.add("", "RMSNormalization", 23, importRmsNorm);
  r.add("com.microsoft", "SimplifiedLayerNormalization", 1, importRmsNorm);
  r.add("", "SimplifiedLayerNormalization", 1, importRmsNorm); // ONNX Runtime writes it so
  r.add("com.microsoft", "EmbedLayerNormalization", 1, importEmbedNorm);
  r.add("com.microsoft", "SkipLayerNormalization", 1, importSkipNorm<false>);
  r.add("com.microsoft", "SkipSimplifiedLayerNormalization", 1, importSkipNorm<true>);
}
