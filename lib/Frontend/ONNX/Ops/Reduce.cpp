//===- Reduce.cpp - Reductions, and the largest elements ------------------===//
#include "dialects/nn/Ops/Sort.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Reduces numbers; with `keep` the dimensions stay, with one element.
using Reduction = Tensor (*)(Tensor, ArrayRef<int64_t>, bool keep);

template <nn::ReduceKind kind>
static Tensor reduceAll(Tensor x, ArrayRef<int64_t> dims, bool keep) {
  return x.reduce(kind, dims, keep);
}

static Tensor mean(Tensor x, ArrayRef<int64_t> dims, bool keep) {
  double count = 1;
  for (int64_t dim : dims)
    count *= x.dim(dim);
  return x.sum(dims, keep) / count;
}

/// The logarithm of the sum of exponentials, without overflow. What is subtracted from x is 0 where
/// it would be infinite.
static Tensor logSumExp(Tensor x, ArrayRef<int64_t> dims, bool keep) {
  Tensor peak = x.reduce(nn::ReduceKind::Max, dims, true);
  if (peak && x.hasFloats()) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    peak = select(equal(abs(peak), infinity), 0, peak);
  }
  Tensor sum = exp(x - peak).sum(dims, true);
  Tensor result = log(sum) + peak;
  return keep ? result : result.sum(dims, false);
}

/// The largest or smallest elements. The gradient of amax() goes to all largest elements in equal
/// parts, that of max(dim) to the one whose index it returns. Of truth values a maximum is an or, a
/// minimum an and.
template <nn::ReduceKind kind> static Tensor extreme(Tensor x, ArrayRef<int64_t> dims, bool keep) {
  if (x.hasTruths()) {
    x = x.cast(x.node().builder.getI32Type());
    return differ(x.reduce(kind, dims, keep), 0);
  }
  std::string traced = x.node().tracedAs();
  if ((traced != words::kMaxDim && traced != words::kMinDim) || dims.size() != 1 ||
      x.dim(dims[0]) < 1)
    return x.reduce(kind, dims, keep);
  Tensor picked = firstExtreme(kind, x, dims[0]);
  return keep ? picked : picked.sum(dims, false);
}

template <Reduction reduce, bool takesTruth = false>
static Tensor importReduce(Node &node, Tensor x) {
  int64_t rank = x.rank();
  Sizes dims = node.list().value_or(Sizes());
  bool keep = node.flagAttr("keepdims", true), none = node.flagAttr("noop_with_empty_axes", false);
  if (dims.empty() && none)
    return x;
  if (dims.empty())
    dims = allDims(rank);
  if (failed(node.normalizeAll(dims, rank)))
    return {};
  if (!takesTruth && x.hasTruths())
    return node.error("cannot reduce bools");
  return reduce(x, dims, keep);
}

/// TopK: the elements of the last dimension, which the axis becomes.
static LogicalResult importTopK(Node &node, Tensor x) {
  int64_t rank = x.rank(), size = x.dim(node.axis()), count = node.onlyInt(1, "count");
  if (count < 0 || count > size)
    return node.error("the count is {}, not from 0 to {}, the size of dimension {}", count, size,
                      node.axis());
  if (size > INT32_MAX)
    return node.error("a line of {} elements is too long: TopK orders fewer than 2^31", size);
  Sizes perm = dimAndLast(rank, node.axis());
  x = x.transpose(perm);
  if (!x)
    return failure();
  Sizes shape(x.shape());
  shape.back() = count;
  RankedTensorType type = x.type().clone(shape);
  auto op = nn::TopKOp::create(node.builder, node.loc, type, type.clone(node.builder.getI64Type()),
                               x, !node.flagAttr("largest", true));
  node.adopt(op);
  node.set(0, Tensor(node, op.getValues()).transpose(perm));
  if (node.wants(1))
    node.set(1, Tensor(node, op.getIndices()).transpose(perm));
  return success();
}

/// The first or last index of the largest or smallest element along `axis`, which has elements;
/// with `keep` the dimension stays, with one element.
static Tensor extremeIndex(nn::ReduceKind kind, Tensor x, int64_t axis, bool last, bool keep) {
  if (!x)
    return {};
  Tensor hit = equal(x, x.reduce(kind, {axis}, true));
  // A line with NaN has no such element: the index stays in range.
  Tensor candidates =
      select(hit, x.node().iota(x.shape(), axis), last ? 0 : double(x.dim(axis) - 1));
  return candidates.reduce(last ? nn::ReduceKind::Max : nn::ReduceKind::Min, {axis}, keep);
}

Tensor onnx::firstExtreme(nn::ReduceKind kind, Tensor x, int64_t axis) {
  Tensor index = extremeIndex(kind, x, axis, /*last=*/false, /*keep=*/true);
  Tensor result = gatherElements(x, index, axis);
  // A line with NaN has no element that equals its largest one, which is NaN.
  Tensor extreme = x.reduce(kind, {axis}, true);
  return select(equal(extreme, extreme), result, extreme);
}

/// ArgMax and ArgMin: the first or last index of an element that equals the extreme.
template <nn::ReduceKind kind> static Tensor importArgExtreme(Node &node, Tensor x) {
  if (x.dim(node.axis()) < 1)
    return node.error("a dimension without elements has no largest or smallest");
  bool last = node.flagAttr("select_last_index", false), keep = node.flagAttr("keepdims", true);
  return extremeIndex(kind, x, node.axis(), last, keep);
}

/// One place of all spatial dimensions: their first largest element.
static Tensor importGlobalMaxPool(Node &node, Tensor x) {
  ArrayRef<int64_t> shape = x.shape();
  int64_t places = llvm::product_of(shape.drop_front(2));
  if (places == 0)
    return node.error("a spatial dimension of the operand is empty");
  Sizes one(shape.size(), 1);
  std::copy_n(shape.begin(), 2, one.begin());
  Tensor flat = x.reshape({shape[0], shape[1], places});
  return firstExtreme(nn::ReduceKind::Max, flat, 2).reshape(one);
}

/// One place of all spatial dimensions: their mean.
static Tensor importGlobalAveragePool(Tensor x) {
  return x.sum(dimRange(2, x.rank()), true) / double(llvm::product_of(x.shape().drop_front(2)));
}

/// Hardmax: 1 at the first largest element of a line, else 0.
static Tensor importHardmax(Node &node, Tensor x) {
  int64_t axis;
  FailureOr<Sizes> shape = linesOf(node, axis);
  if (failed(shape))
    return {};
  Sizes own(x.shape());
  x = x.reshape(*shape);
  if (!x || (*shape)[axis] < 1)
    return node.error("a line has no elements");
  Tensor hit = equal(x, x.reduce(nn::ReduceKind::Max, {axis}, true)), at = node.iota(*shape, axis);
  Tensor first = select(hit, at, double((*shape)[axis]));
  Tensor chosen = equal(at, first.reduce(nn::ReduceKind::Min, {axis}, true));
  return select(chosen, x.like(1), 0).reshape(own);
}

/// Returns the places of elements of a constant that are not zero; none after an error.
static Sizes knownPlaces(Node &node, int operand) {
  Sizes places;
  DenseElementsAttr attr = node.building.constantOf(node.input(operand));
  if (!attr) {
    (void)node.error("the size of its result depends on operand {} ({}), which is not known at "
                     "compile time: write the model with a mask, or with a fixed count (TopK)",
                     operand, node.proto.input(operand));
    return places;
  }
  auto collect = [&](auto values) {
    for (auto [i, value] : llvm::enumerate(values))
      if (!value.isZero())
        places.push_back(i);
  };
  if (isa<FloatType>(attr.getElementType()))
    collect(attr.getValues<APFloat>());
  else
    collect(attr.getValues<APInt>());
  return places;
}

/// NonZero of a constant: [rank, count].
static Tensor importNonZero(Node &node, Tensor x) {
  Sizes places = knownPlaces(node, 0);
  ArrayRef<int64_t> shape = x.shape();
  int64_t count = places.size(), rank = shape.size();
  Sizes indices(rank * count, 0);
  for (auto [found, place] : llvm::enumerate(places))
    for (int64_t d = rank, rest = place; d-- > 0; rest /= shape[d])
      indices[d * count + found] = rest % shape[d];
  return node.constant(indices).reshape({rank, count});
}

/// Compress with a constant condition: the slices where it is true.
static Tensor importCompress(Node &node, Tensor x) {
  Sizes places = knownPlaces(node, 1);
  int64_t axis = node.intAttr("axis", 0);
  if (!node.attribute("axis"))
    x = x.reshape({x.count()});
  if (node.hasFailed() || failed(node.normalize(axis, x.rank())))
    return {};
  if (!places.empty() && places.back() >= x.dim(axis))
    return node.error("the condition is true beyond the {} slices of the operand", x.dim(axis));
  return gatherAlong(x, node.constant(places), axis);
}

void onnx::registerReduceOps(HandlerRegistry &r) {
  constexpr Needs sum = needs(1) | movedList("axes", 13), other = needs(1) | movedList("axes", 18);
  using Dims = ArrayRef<int64_t>;
  constexpr Reduction sizes = [](Tensor x, Dims dims, bool keep) { return abs(x).sum(dims, keep); };
  constexpr Reduction squares = [](Tensor x, Dims dims, bool keep) {
    return (x * x).sum(dims, keep);
  };
  constexpr Reduction length = [](Tensor x, Dims dims, bool keep) {
    return rootOrZero((x * x).sum(dims, keep));
  };
  constexpr Reduction logSum = [](Tensor x, Dims dims, bool keep) {
    return log(x.sum(dims, keep));
  };
  r.add("", "ReduceSum", 1, importReduce<reduceAll<nn::ReduceKind::Sum>>, sum);
  r.add("", "ReduceMean", 1, importReduce<mean>, other);
  r.add("", "ReduceMax", 1, importReduce<extreme<nn::ReduceKind::Max>, true>, other);
  r.add("", "ReduceMin", 1, importReduce<extreme<nn::ReduceKind::Min>, true>, other);
  r.add("", "ReduceProd", 1, importReduce<reduceAll<nn::ReduceKind::Prod>>, other);
  r.add("", "ReduceL1", 1, importReduce<sizes>, other);
  r.add("", "ReduceL2", 1, importReduce<length>, other);
  r.add("", "ReduceSumSquare", 1, importReduce<squares>, other);
  r.add("", "ReduceLogSum", 1, importReduce<logSum>, other);
  r.add("", "ReduceLogSumExp", 1, importReduce<logSumExp>, other);
  r.add("", "TopK", 10, importTopK, needs(2) | numbers(1) | defaultAxis(-1));
  r.add("", "ArgMax", 1, importArgExtreme<nn::ReduceKind::Max>, numbers(1) | defaultAxis(0));
  r.add("", "ArgMin", 1, importArgExtreme<nn::ReduceKind::Min>, numbers(1) | defaultAxis(0));
  r.add("", "GlobalAveragePool", 1, importGlobalAveragePool, floats(1) | rank(3));
  r.add("", "GlobalMaxPool", 1, importGlobalMaxPool, floats(1) | rank(3));
  r.add("", "Hardmax", 1, importHardmax, floats(1));
  r.add("", "NonZero", 9, importNonZero, needs(1));
  r.add("", "Compress", 9, importCompress, needs(2));
}
