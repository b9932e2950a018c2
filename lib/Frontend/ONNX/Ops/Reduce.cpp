//===- Reduce.cpp - Reductions --------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
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
  if (peak && isa<FloatType>(Node::type(x).getElementType())) {
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
}
