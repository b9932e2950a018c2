//===- Optimizer.cpp - The sum of squares in simpler ops ------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Decompose/Composer.h"

using namespace mlir;
using namespace shale::nn;

// Sums in two levels, in an order that depends only on shapes: rows of `block`
// elements in parallel, then the row sums and the remainder, operand by operand.
SmallVector<Value> SumSquaresOp::decompose(OpBuilder &builder) {
  constexpr int64_t block = 8192;
  Composer b(builder, *this);
  Value total;
  for (Value x : getInputs()) {
    int64_t count = Composer::type(x).getNumElements(), rows = count / block, whole = rows * block;
    Value flat = b.reshape(x, {count});
    SmallVector<Value> parts;
    if (rows > 0) {
      Value head = b.reshape(whole == count ? flat : b.slice(flat, 0, 0, whole), {rows, block});
      Value sums = b.reduceRows(ReduceKind::Sum, b.mul(head, head));
      parts.push_back(b.reduceRows(ReduceKind::Sum, sums));
    }
    if (whole < count) {
      Value tail = whole == 0 ? flat : b.slice(flat, 0, whole, count);
      parts.push_back(b.reduceRows(ReduceKind::Sum, b.mul(tail, tail)));
    }
    for (Value part : parts)
      total = total ? b.add(total, part) : part;
  }
  return {total ? total : b.splat(Composer::type(getResult()), 0)};
}
