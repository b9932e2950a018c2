//===- Reduce.cpp - Reductions, and the largest elements ------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Reduces numbers; with `keep` the dimensions stay, with one element.
using Reduction = Value (*)(Node &, Value, ArrayRef<int64_t>, bool keep);

template <nn::ReduceKind kind>
static Value reduceAll(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  return node.reduce(kind, x, dims, keep);
}

static Value mean(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  double count = 1;
  for (int64_t dim : dims)
    count *= Node::type(x).getDimSize(dim);
  return node.div(node.sum(x, dims, keep), count);
}

static Value sumOfSizes(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  return node.sum(node.abs(x), dims, keep);
}

static Value sumOfSquares(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  return node.sum(node.mul(x, x), dims, keep);
}

static Value length(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  return rootOrZero(node, sumOfSquares(node, x, dims, keep));
}

static Value logSum(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  return node.log(node.sum(x, dims, keep));
}

/// The logarithm of the sum of exponentials, without overflow. What is subtracted from x is 0 where
/// it would be infinite.
static Value logSumExp(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  Value peak = node.reduce(nn::ReduceKind::Max, x, dims, true);
  if (peak && Node::hasFloats(x)) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    peak = node.select(node.binary(node.abs(peak), infinity, nn::Predicate::EQ), 0, peak);
  }
  Value sum = node.sum(node.exp(node.sub(x, peak)), dims, true);
  Value result = node.add(node.log(sum), peak);
  return keep ? result : node.sum(result, dims, false);
}

/// The largest or smallest elements. The gradient of amax() goes to all largest elements in equal
/// parts, that of max(dim) to the one whose index it returns. Of truth values a maximum is an or, a
/// minimum an and.
template <nn::ReduceKind kind>
static Value extreme(Node &node, Value x, ArrayRef<int64_t> dims, bool keep) {
  if (Node::type(x).getElementType().isInteger(1)) {
    x = node.cast(x, node.builder.getI32Type());
    return node.binary(node.reduce(kind, x, dims, keep), 0, nn::Predicate::NE);
  }
  std::string traced = node.tracedAs();
  bool picksOne = (traced == words::kMaxDim || traced == words::kMinDim) && dims.size() == 1 &&
                  Node::type(x).getDimSize(dims[0]) > 0;
  if (!picksOne)
    return node.reduce(kind, x, dims, keep);
  Value picked = firstExtreme(node, kind, x, dims[0]);
  return keep ? picked : node.sum(picked, dims, false);
}

template <Reduction reduce, bool takesTruth = false> static Value importReduce(Node &node) {
  Value x = node.input(0);
  int64_t rank = Node::type(x).getRank();
  Sizes dims = node.list().value_or(Sizes());
  bool keep = node.flagAttr("keepdims", true), none = node.flagAttr("noop_with_empty_axes", false);
  if (dims.empty() && none)
    return x;
  if (dims.empty())
    dims = allDims(rank);
  if (failed(node.normalizeAll(dims, rank)))
    return {};
  if (!takesTruth && Node::type(x).getElementType().isInteger(1))
    return node.error("cannot reduce bools");
  return reduce(node, x, dims, keep);
}

//===----------------------------------------------------------------------===//
// The largest elements, and where elements are
//===----------------------------------------------------------------------===//

/// Maximum number of pairs of elements that TopK compares.
static constexpr int64_t kMaxPairs = int64_t(1) << 30;

/// Returns the place in the order of its line for each element of the last dimension: the number of
/// elements that come first. Of equal elements the one with the lower index does.
static Value ranks(Node &node, Value x, bool largest) {
  ArrayRef<int64_t> shape = Node::type(x).getShape();
  int64_t last = shape.size() - 1;
  Sizes pairs = withDim(shape, last, shape[last]);
  Value a = node.broadcast(node.unsqueeze(x, last + 1), pairs);
  Value b = node.broadcast(node.unsqueeze(x, last), pairs);
  Value before = node.binary(b, a, largest ? nn::Predicate::GT : nn::Predicate::LT);
  Value equal = node.binary(b, a, nn::Predicate::EQ);
  Value lower = node.binary(node.iota(pairs, last + 1), node.iota(pairs, last), nn::Predicate::LT);
  Value first = node.either(before, node.both(equal, lower));
  return node.sum(node.cast(first, node.builder.getI64Type()), {last + 1}, false);
}

/// TopK. Each result is the sum over its line of what has its place in the order, so gradients flow
/// to the chosen elements.
static LogicalResult importTopK(Node &node) {
  Value x = node.input(0);
  auto type = Node::type(x);
  int64_t rank = type.getRank(), size = type.getDimSize(node.axis());
  FailureOr<int64_t> count = node.onlyInt(1, "count");
  if (failed(count))
    return failure();
  if (*count < 0 || *count > size)
    return node.error("the count is {}, not from 0 to {}, the size of dimension {}", *count, size,
                      node.axis());
  if (size > 0 && type.getNumElements() > kMaxPairs / size)
    return node.error("a line of {} elements is too long: TopK compares all pairs of {}", size,
                      type);
  Sizes perm = dimAndLast(rank, node.axis());
  x = node.transpose(x, perm);
  Value place = x ? ranks(node, x, node.flagAttr("largest", true)) : Value();
  if (!place)
    return failure();
  // [.., k, size]: whether the element has place k.
  Sizes wide = withDim(Node::type(x).getShape(), rank - 1, *count);
  Value chosen = node.binary(node.broadcast(node.unsqueeze(place, rank - 1), wide),
                             node.iota(wide, rank - 1), nn::Predicate::EQ);
  auto sum = [&](Value value) {
    return node.transpose(node.sum(node.select(chosen, value, 0), {rank}, false), perm);
  };
  node.set(0, sum(node.broadcast(node.unsqueeze(x, rank - 1), wide)));
  if (node.wants(1))
    node.set(1, sum(node.iota(wide, rank)));
  return success();
}

Value onnx::extremeIndex(Node &node, nn::ReduceKind kind, Value x, int64_t axis, bool last,
                         bool keep) {
  auto type = Node::type(x);
  Value extreme = node.broadcast(node.reduce(kind, x, {axis}, true), type.getShape());
  Value hit = node.binary(x, extreme, nn::Predicate::EQ);
  // A line with NaN has no such element: the index stays in range.
  Value candidates = node.select(hit, node.iota(type.getShape(), axis),
                                 last ? 0 : double(type.getDimSize(axis) - 1));
  return node.reduce(last ? nn::ReduceKind::Max : nn::ReduceKind::Min, candidates, {axis}, keep);
}

Value onnx::firstExtreme(Node &node, nn::ReduceKind kind, Value x, int64_t axis) {
  if (!x)
    return {};
  Value index = extremeIndex(node, kind, x, axis, /*last=*/false, /*keep=*/true);
  Value result = index ? gatherElements(node, x, index, axis) : Value();
  // A line with NaN has no element that equals its largest one, which is NaN.
  Value extreme = node.reduce(kind, x, {axis}, true);
  return node.select(node.binary(extreme, extreme, nn::Predicate::EQ), result, extreme);
}

/// ArgMax and ArgMin: the first or last index of an element that equals the extreme.
template <nn::ReduceKind kind> static Value importArgExtreme(Node &node) {
  if (Node::type(node.input(0)).getDimSize(node.axis()) < 1)
    return node.error("a dimension without elements has no largest or smallest");
  bool last = node.flagAttr("select_last_index", false), keep = node.flagAttr("keepdims", true);
  return extremeIndex(node, kind, node.input(0), node.axis(), last, keep);
}

/// Hardmax: 1 at the first largest element of a line, else 0.
static Value importHardmax(Node &node) {
  int64_t axis;
  FailureOr<SmallVector<int64_t>> shape = linesOf(node, axis);
  if (failed(shape))
    return {};
  Value x = node.reshape(node.input(0), *shape);
  if (!x || (*shape)[axis] < 1)
    return node.error("a line has no elements");
  Value peak = node.broadcast(node.reduce(nn::ReduceKind::Max, x, {axis}, true), *shape);
  Value hit = node.binary(x, peak, nn::Predicate::EQ), at = node.iota(*shape, axis);
  Value first = node.select(hit, at, double((*shape)[axis]));
  first = node.broadcast(node.reduce(nn::ReduceKind::Min, first, {axis}, true), *shape);
  Value chosen = node.binary(at, first, nn::Predicate::EQ);
  return node.reshape(node.select(chosen, node.like(x, 1), 0),
                      Node::type(node.input(0)).getShape());
}

/// Returns which elements of a constant are not zero; nothing after an error.
static std::optional<SmallVector<bool>> knownTruth(Node &node, int operand) {
  DenseElementsAttr attr = node.building.constantOf(node.input(operand));
  if (!attr) {
    (void)node.error("the size of its result depends on operand {} ({}), which is not known at "
                     "compile time: write the model with a mask, or with a fixed count (TopK)",
                     operand, node.proto.input(operand));
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
static Value importNonZero(Node &node) {
  std::optional<SmallVector<bool>> truth = knownTruth(node, 0);
  if (!truth)
    return {};
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
  return node.reshape(node.constant(places), {rank, count});
}

/// Compress with a constant condition: the slices where it is true.
static Value importCompress(Node &node) {
  std::optional<SmallVector<bool>> truth = knownTruth(node, 1);
  if (!truth)
    return {};
  Value x = node.input(0);
  int64_t axis = node.intAttr("axis", 0);
  if (!node.attribute("axis"))
    x = node.reshape(x, {Node::type(x).getNumElements()});
  if (!x || failed(node.normalize(axis, Node::type(x).getRank())))
    return {};
  SmallVector<int64_t> places;
  for (auto [i, here] : llvm::enumerate(*truth))
    if (here)
      places.push_back(i);
  if (!places.empty() && places.back() >= Node::type(x).getDimSize(axis))
    return node.error("the condition is true beyond the {} slices of the operand",
                      Node::type(x).getDimSize(axis));
  return gatherAlong(node, x, node.constant(places), axis);
}

void onnx::registerReduceOps(HandlerRegistry &r) {
  constexpr Needs sum = needs(1) | movedList("axes", 13), other = needs(1) | movedList("axes", 18);
  r.add("", "ReduceSum", 1, importReduce<reduceAll<nn::ReduceKind::Sum>>, sum);
  r.add("", "ReduceMean", 1, importReduce<mean>, other);
  r.add("", "ReduceMax", 1, importReduce<extreme<nn::ReduceKind::Max>, true>, other);
  r.add("", "ReduceMin", 1, importReduce<extreme<nn::ReduceKind::Min>, true>, other);
  r.add("", "ReduceProd", 1, importReduce<reduceAll<nn::ReduceKind::Prod>>, other);
  r.add("", "ReduceL1", 1, importReduce<sumOfSizes>, other);
  r.add("", "ReduceL2", 1, importReduce<length>, other);
  r.add("", "ReduceSumSquare", 1, importReduce<sumOfSquares>, other);
  r.add("", "ReduceLogSum", 1, importReduce<logSum>, other);
  r.add("", "ReduceLogSumExp", 1, importReduce<logSumExp>, other);
  r.add("", "TopK", 10, importTopK, needs(2) | numbers(1) | defaultAxis(-1));
  r.add("", "ArgMax", 1, importArgExtreme<nn::ReduceKind::Max>, numbers(1) | defaultAxis(0));
  r.add("", "ArgMin", 1, importArgExtreme<nn::ReduceKind::Min>, numbers(1) | defaultAxis(0));
  r.add("", "Hardmax", 1, importHardmax, floats(1));
  r.add("", "NonZero", 9, importNonZero, needs(1));
  r.add("", "Compress", 9, importCompress, needs(2));
}
