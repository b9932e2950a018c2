//===- Reduce.cpp - Reductions --------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
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
  if (failed(node.require(1)))
    return failure();
  int64_t rank = Node::type(node.input(0)).getRank();
  std::optional<SmallVector<int64_t>> axes;
  if (node.version < sinceOperand) {
    axes = node.intsAttr("axes");
  } else if (node.has(1)) {
    axes.emplace();
    if (failed(node.constantInts(1, *axes)))
      return failure();
  }
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

/// x, but 0 where it is infinite: it is subtracted from itself.
static Value finiteOrZero(Node &node, Value x) {
  if (!x || !isa<FloatType>(Node::type(x).getElementType()))
    return x;
  auto type = Node::type(x);
  Value isInfinite =
      node.binary(node.unary<nn::AbsOp>(x),
                  node.constant(type, std::numeric_limits<double>::infinity()), nn::Predicate::EQ);
  return isInfinite ? node.create<nn::SelectOp>(type, isInfinite, node.constant(type, 0), x)
                    : Value();
}

template <Reduction kind> static LogicalResult importReduce(Node &node) {
  SmallVector<int64_t> dims;
  bool nothing = false, keep = node.flagAttr("keepdims", true);
  if (failed(readDims(node, kind == Reduction::Sum ? 13 : 18, dims, nothing)))
    return failure();
  Value x = node.input(0);
  if (nothing) {
    node.set(0, x);
    return success();
  }
  bool truth = Node::type(x).getElementType().isInteger(1); // a maximum is an or, a minimum an and
  if (truth && kind != Reduction::Max && kind != Reduction::Min)
    return node.error("cannot reduce bools");
  if (truth)
    x = node.cast(x, node.builder.getI32Type());
  auto reduce = [&](nn::ReduceKind how, Value value) {
    return node.reduce(how, value, dims, keep);
  };
  Value result;
  if (!truth && dims.size() == 1 && picksOne(node, kind, x, dims[0])) {
    result = firstExtreme(node, kind == Reduction::Max ? nn::ReduceKind::Max : nn::ReduceKind::Min,
                          x, dims[0]);
    node.set(0, result && !keep ? reduce(nn::ReduceKind::Sum, result) : result);
    return success();
  }
  switch (kind) {
  case Reduction::Sum:
    result = reduce(nn::ReduceKind::Sum, x);
    break;
  case Reduction::Max:
    result = reduce(nn::ReduceKind::Max, x);
    break;
  case Reduction::Min:
    result = reduce(nn::ReduceKind::Min, x);
    break;
  case Reduction::Prod:
    result = reduce(nn::ReduceKind::Prod, x);
    break;
  case Reduction::Mean: {
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= Node::type(x).getDimSize(dim);
    result = reduce(nn::ReduceKind::Sum, x);
    if (result)
      result = node.binary<nn::DivOp>(result, node.constant(Node::type(result), double(count)));
    break;
  }
  case Reduction::L1:
    result = reduce(nn::ReduceKind::Sum, node.unary<nn::AbsOp>(x));
    break;
  case Reduction::L2:
  case Reduction::SumSquare:
    result = reduce(nn::ReduceKind::Sum, node.binary<nn::MulOp>(x, x));
    if (result && kind == Reduction::L2)
      result = rootOrZero(node, result);
    break;
  case Reduction::LogSum:
    result = reduce(nn::ReduceKind::Sum, x);
    result = result ? node.unary<nn::LogOp>(result) : Value();
    break;
  case Reduction::LogSumExp: {
    Value peak = finiteOrZero(node, node.reduce(nn::ReduceKind::Max, x, dims, true));
    Value shifted = node.binary<nn::SubOp>(x, peak);
    Value sum = node.reduce(nn::ReduceKind::Sum, shifted ? node.unary<nn::ExpOp>(shifted) : Value(),
                            dims, true);
    result = sum ? node.binary<nn::AddOp>(node.unary<nn::LogOp>(sum), peak) : Value();
    if (result && !keep)
      result = node.reduce(nn::ReduceKind::Sum, result, dims, false);
    break;
  }
  }
  if (truth && result)
    result = node.binary(result, node.constant(Node::type(result), 0), nn::Predicate::NE);
  node.set(0, result);
  return success();
}

void onnx::registerReduceOps(HandlerRegistry &r) {
  r.add("", "ReduceSum", 1, importReduce<Reduction::Sum>);
  r.add("", "ReduceMean", 1, importReduce<Reduction::Mean>);
  r.add("", "ReduceMax", 1, importReduce<Reduction::Max>);
  r.add("", "ReduceMin", 1, importReduce<Reduction::Min>);
  r.add("", "ReduceProd", 1, importReduce<Reduction::Prod>);
  r.add("", "ReduceL1", 1, importReduce<Reduction::L1>);
  r.add("", "ReduceL2", 1, importReduce<Reduction::L2>);
  r.add("", "ReduceSumSquare", 1, importReduce<Reduction::SumSquare>);
  r.add("", "ReduceLogSum", 1, importReduce<Reduction::LogSum>);
  r.add("", "ReduceLogSumExp", 1, importReduce<Reduction::LogSumExp>);
}
