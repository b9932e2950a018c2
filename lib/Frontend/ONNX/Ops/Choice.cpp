//===- Choice.cpp - The largest elements, and where elements are ----------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of pairs of elements that TopK compares.
static constexpr int64_t kMaxPairs = int64_t(1) << 30;

static Value iota(Node &node, ArrayRef<int64_t> shape, int64_t dim) {
  auto type = RankedTensorType::get(shape, node.builder.getI64Type());
  return nn::IotaOp::create(node.builder, node.loc, type, dim);
}

/// Returns the place in the order of its line for each element of the last dimension: the number of
/// elements that come first. Of equal elements the one with the lower index does.
static Value ranks(Node &node, Value x, bool largest) {
  SmallVector<int64_t> shape(Node::type(x).getShape());
  int64_t last = shape.size() - 1;
  SmallVector<int64_t> own(shape), other(shape), pairs(shape);
  own.push_back(1);
  other.insert(other.end() - 1, 1);
  pairs.push_back(shape[last]);
  Value a = node.broadcast(node.reshape(x, own), pairs);
  Value b = node.broadcast(node.reshape(x, other), pairs);
  Value before = node.binary(b, a, largest ? nn::Predicate::GT : nn::Predicate::LT);
  Value equal = node.binary(b, a, nn::Predicate::EQ);
  Value lower =
      node.binary(iota(node, pairs, last + 1), iota(node, pairs, last), nn::Predicate::LT);
  if (!before || !equal || !lower)
    return {};
  Value first = node.binary<nn::OrOp>(before, node.binary<nn::AndOp>(equal, lower));
  return node.reduce(nn::ReduceKind::Sum, node.cast(first, node.builder.getI64Type()), {last + 1},
                     false);
}

/// TopK. Each result is the sum over its line of what has its place in the order, so gradients flow
/// to the chosen elements.
static LogicalResult importTopK(Node &node) {
  SmallVector<int64_t> counts;
  if (failed(node.require(2)) || failed(node.constantInts(1, counts)))
    return failure();
  Value x = node.input(0);
  auto type = Node::type(x);
  int64_t axis = node.intAttr("axis", -1), rank = type.getRank();
  if (failed(node.normalize(axis, rank)))
    return failure();
  int64_t size = type.getDimSize(axis);
  if (failed(node.requireNumbers(0)))
    return failure();
  if (counts.size() != 1)
    return node.error("operand 1 must be one count, but has " + Twine(counts.size()) + " elements");
  if (counts[0] < 0 || counts[0] > size)
    return node.error("the count is " + Twine(counts[0]) + ", not from 0 to " + Twine(size) +
                      ", the size of dimension " + Twine(axis));
  if (size > 0 && type.getNumElements() > kMaxPairs / size)
    return node.error("a line of " + Twine(size) +
                      " elements is too long: TopK compares all pairs of " + Node::name(type));
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(perm[axis], perm[rank - 1]);
  x = node.transpose(x, perm);
  Value place = x ? ranks(node, x, node.flagAttr("largest", true)) : Value();
  if (!place)
    return failure();
  // [.., k, size]: whether the element has place k.
  SmallVector<int64_t> wide(Node::type(x).getShape()), line(wide);
  wide.insert(wide.end() - 1, counts[0]);
  line.insert(line.end() - 1, 1);
  Value chosen = node.binary(node.broadcast(node.reshape(place, line), wide),
                             iota(node, wide, rank - 1), nn::Predicate::EQ);
  auto sum = [&](Value value) -> Value {
    if (!chosen || !value)
      return {};
    Value zero = node.constant(Node::type(value), 0);
    Value only = node.create<nn::SelectOp>(value.getType(), chosen, value, zero);
    return node.transpose(node.reduce(nn::ReduceKind::Sum, only, {rank}, false), perm);
  };
  node.set(0, sum(node.broadcast(node.reshape(x, line), wide)));
  if (node.wants(1))
    node.set(1, sum(iota(node, wide, rank)));
  return success();
}

Value onnx::extremeIndex(Node &node, nn::ReduceKind kind, Value x, int64_t axis, bool last,
                         bool keep) {
  auto type = Node::type(x);
  Value extreme = node.broadcast(node.reduce(kind, x, {axis}, true), type.getShape());
  Value hit = node.binary(x, extreme, nn::Predicate::EQ);
  if (!hit)
    return {};
  Value at = iota(node, type.getShape(), axis);
  // A line with NaN has no such element: the index stays in range.
  Value none = node.constant(Node::type(at), last ? 0 : double(type.getDimSize(axis) - 1));
  Value candidates = node.create<nn::SelectOp>(at.getType(), hit, at, none);
  return node.reduce(last ? nn::ReduceKind::Max : nn::ReduceKind::Min, candidates, {axis}, keep);
}

Value onnx::firstExtreme(Node &node, nn::ReduceKind kind, Value x, int64_t axis) {
  Value index = extremeIndex(node, kind, x, axis, /*last=*/false, /*keep=*/true);
  Value result = index ? gatherElements(node, x, index, axis) : Value();
  // A line with NaN has no element that equals its largest one, which is NaN.
  Value extreme = result ? node.reduce(kind, x, {axis}, true) : Value();
  Value isNumber = extreme ? node.binary(extreme, extreme, nn::Predicate::EQ) : Value();
  return isNumber ? node.create<nn::SelectOp>(result.getType(), isNumber, result, extreme)
                  : Value();
}

/// ArgMax and ArgMin: the first or last index of an element that equals the extreme.
template <nn::ReduceKind kind> static LogicalResult importArgExtreme(Node &node) {
  if (failed(node.requireNumbers(0)))
    return failure();
  int64_t axis = node.intAttr("axis", 0);
  auto type = Node::type(node.input(0));
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  if (type.getDimSize(axis) < 1)
    return node.error("a dimension without elements has no largest or smallest");
  bool last = node.flagAttr("select_last_index", false), keep = node.flagAttr("keepdims", true);
  node.set(0, extremeIndex(node, kind, node.input(0), axis, last, keep));
  return success();
}

/// Hardmax: 1 at the first largest element of a line, else 0.
static LogicalResult importHardmax(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  auto type = Node::type(x);
  int64_t axis = node.intAttr("axis", node.version < 13 ? 1 : -1);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  if (node.version < 13) { // all later dimensions are one line
    int64_t rows = 1;
    for (int64_t i = 0; i < axis; ++i)
      rows *= shape[i];
    shape = {rows, rows ? type.getNumElements() / rows : 0};
    axis = 1;
  }
  x = node.reshape(x, shape);
  if (!x || shape[axis] < 1)
    return node.error("a line has no elements");
  Value peak = node.broadcast(node.reduce(nn::ReduceKind::Max, x, {axis}, true), shape);
  Value hit = node.binary(x, peak, nn::Predicate::EQ);
  if (!hit)
    return failure();
  Value at = iota(node, shape, axis);
  Value first = node.create<nn::SelectOp>(at.getType(), hit, at,
                                          node.constant(Node::type(at), double(shape[axis])));
  first = node.broadcast(node.reduce(nn::ReduceKind::Min, first, {axis}, true), shape);
  Value chosen = node.binary(at, first, nn::Predicate::EQ);
  if (!chosen)
    return failure();
  Value one = node.constant(Node::type(x), 1), zero = node.constant(Node::type(x), 0);
  node.set(
      0, node.reshape(node.create<nn::SelectOp>(x.getType(), chosen, one, zero), type.getShape()));
  return success();
}

/// Returns which elements of a constant are not zero; nothing after an error.
static std::optional<SmallVector<bool>> knownTruth(Node &node, int operand) {
  DenseElementsAttr attr = node.building.constantOf(node.input(operand));
  if (!attr) {
    (void)node.error(
        "the size of its result depends on operand " + Twine(operand) + " ('" +
        displayName(node.proto.input(operand)) +
        "'), which is not known at compile time: write the model with a mask, or with a fixed count (TopK)");
    return std::nullopt;
  }
  SmallVector<bool> truth;
  if (isa<FloatType>(attr.getElementType()))
    for (const APFloat &value : attr.getValues<APFloat>())
      truth.push_back(!value.isZero());
  else
    for (const APInt &value : attr.getValues<APInt>())
      truth.push_back(!value.isZero());
  return truth;
}

/// NonZero of a constant: [rank, count].
static LogicalResult importNonZero(Node &node) {
  if (failed(node.require(1)))
    return failure();
  std::optional<SmallVector<bool>> truth = knownTruth(node, 0);
  if (!truth)
    return failure();
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  int64_t count = llvm::count(*truth, true), rank = shape.size();
  SmallVector<int64_t> places(rank * count, 0);
  int64_t found = 0;
  for (auto [i, here] : llvm::enumerate(*truth)) {
    if (!here)
      continue;
    int64_t rest = i;
    for (int64_t d = rank; d-- > 0; rest /= shape[d])
      places[d * count + found] = rest % shape[d];
    ++found;
  }
  node.set(0, node.reshape(node.constant(places), {rank, count}));
  return success();
}

/// Compress with a constant condition: the slices where it is true.
static LogicalResult importCompress(Node &node) {
  if (failed(node.require(2)))
    return failure();
  std::optional<SmallVector<bool>> truth = knownTruth(node, 1);
  if (!truth)
    return failure();
  Value x = node.input(0);
  int64_t axis = node.intAttr("axis", 0);
  if (!node.attribute("axis"))
    x = node.reshape(x, {Node::type(x).getNumElements()});
  if (!x || failed(node.normalize(axis, Node::type(x).getRank())))
    return failure();
  SmallVector<int64_t> places;
  for (auto [i, here] : llvm::enumerate(*truth))
    if (here)
      places.push_back(i);
  if (!places.empty() && places.back() >= Node::type(x).getDimSize(axis))
    return node.error("the condition is true beyond the " + Twine(Node::type(x).getDimSize(axis)) +
                      " slices of the operand");
  node.set(0, gatherAlong(node, x, node.constant(places), axis));
  return success();
}

void onnx::registerChoiceOps(HandlerRegistry &r) {
  r.add("", "TopK", 10, importTopK);
  r.add("", "ArgMax", 1, importArgExtreme<nn::ReduceKind::Max>);
  r.add("", "ArgMin", 1, importArgExtreme<nn::ReduceKind::Min>);
  r.add("", "Hardmax", 1, importHardmax);
  r.add("", "NonZero", 9, importNonZero);
  r.add("", "Compress", 9, importCompress);
}
