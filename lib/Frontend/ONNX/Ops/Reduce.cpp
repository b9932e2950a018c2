//===- Reduce.cpp - Reductions --------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The reduced dimensions: an attribute, or an operand (ReduceSum from opset 13
/// on, the others from 18 on).
static LogicalResult readDims(Node &node, int64_t sinceOperand, SmallVectorImpl<int64_t> &dims,
                              bool &nothing) {
  int64_t rank = Node::type(node.input(0)).getRank();
  std::optional<SmallVector<int64_t>> axes;
  if (failed(readAxes(node, sinceOperand, axes)))
    return failure();
  bool empty = !axes || axes->empty();
  nothing = node.flagAttr("noop_with_empty_axes", false) && empty;
  dims = empty ? llvm::to_vector(llvm::seq<int64_t>(0, rank)) : *axes;
  return node.normalizeAll(dims, rank);
}

enum class Reduction { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp };

/// Whether a reduction hands its gradient to one element of each line. The gradient of amax() goes
/// to all largest elements in equal parts, that of max(dim) to the one whose index it returns.
static bool picksOne(Node &node, Reduction kind, Value x, int64_t dim) {
  std::string traced = node.tracedAs();
  return (kind == Reduction::Max || kind == Reduction::Min) &&
         (traced == words::kMaxDim || traced == words::kMinDim) &&
         Node::type(x).getDimSize(dim) > 0;
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

/// Reduces numbers.
static Value reduced(Node &node, Reduction kind, Value x, ArrayRef<int64_t> dims, bool keep) {
  switch (kind) {
  case Reduction::Sum:
    return node.sum(x, dims, keep);
  case Reduction::Max:
    return node.reduce(nn::ReduceKind::Max, x, dims, keep);
  case Reduction::Min:
    return node.reduce(nn::ReduceKind::Min, x, dims, keep);
  case Reduction::Prod:
    return node.reduce(nn::ReduceKind::Prod, x, dims, keep);
  case Reduction::Mean: {
    double count = 1;
    for (int64_t dim : dims)
      count *= Node::type(x).getDimSize(dim);
    return node.div(node.sum(x, dims, keep), count);
  }
  case Reduction::L1:
    return node.sum(node.abs(x), dims, keep);
  case Reduction::L2:
    return rootOrZero(node, node.sum(node.mul(x, x), dims, keep));
  case Reduction::SumSquare:
    return node.sum(node.mul(x, x), dims, keep);
  case Reduction::LogSum:
    return node.log(node.sum(x, dims, keep));
  case Reduction::LogSumExp:
    return logSumExp(node, x, dims, keep);
  }
}

template <Reduction kind> static Value importReduce(Node &node) {
  SmallVector<int64_t> dims;
  bool nothing = false, keep = node.flagAttr("keepdims", true);
  if (failed(readDims(node, kind == Reduction::Sum ? 13 : 18, dims, nothing)))
    return {};
  Value x = node.input(0);
  if (nothing)
    return x;
  if (Node::type(x).getElementType().isInteger(1)) { // a maximum is an or, a minimum an and
    if (kind != Reduction::Max && kind != Reduction::Min)
      return node.error("cannot reduce bools");
    x = node.cast(x, node.builder.getI32Type());
    return node.binary(reduced(node, kind, x, dims, keep), 0, nn::Predicate::NE);
  }
  if (dims.size() != 1 || !picksOne(node, kind, x, dims[0]))
    return reduced(node, kind, x, dims, keep);
  Value picked = firstExtreme(
      node, kind == Reduction::Max ? nn::ReduceKind::Max : nn::ReduceKind::Min, x, dims[0]);
  return keep ? picked : node.sum(picked, dims, false);
}

void onnx::registerReduceOps(HandlerRegistry &r) {
  r.add("", "ReduceSum", 1, importReduce<Reduction::Sum>, needs(1));
  r.add("", "ReduceMean", 1, importReduce<Reduction::Mean>, needs(1));
  r.add("", "ReduceMax", 1, importReduce<Reduction::Max>, needs(1));
  r.add("", "ReduceMin", 1, importReduce<Reduction::Min>, needs(1));
  r.add("", "ReduceProd", 1, importReduce<Reduction::Prod>, needs(1));
  r.add("", "ReduceL1", 1, importReduce<Reduction::L1>, needs(1));
  r.add("", "ReduceL2", 1, importReduce<Reduction::L2>, needs(1));
  r.add("", "ReduceSumSquare", 1, importReduce<Reduction::SumSquare>, needs(1));
  r.add("", "ReduceLogSum", 1, importReduce<Reduction::LogSum>, needs(1));
  r.add("", "ReduceLogSumExp", 1, importReduce<Reduction::LogSumExp>, needs(1));
}
