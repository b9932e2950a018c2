//===- Loss.cpp - Cross-entropy in simpler ops ----------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Decompose/Composer.h"

using namespace mlir;
using namespace shale::nn;
using Values = SmallVector<Value>;

namespace {
/// True where the column is the row's label.
Value atLabel(Composer &b, Value logits, Value labels) {
  Value column = b.iota(Composer::shaped(logits, Composer::elementOf(labels)), 1);
  return b.compare(Predicate::EQ, column, b.alongRows(labels, logits));
}
/// True for the rows that count, whose label is not the constant `ignored`.
Value counts(Composer &b, Value labels, int64_t ignored) {
  auto type = Composer::type(labels);
  // 64-bit labels beyond 2^53 would not survive `splat`'s double; no table is that long.
  return b.compare(Predicate::NE, labels, b.splat(type, double(ignored)));
}
} // namespace

Values CrossEntropyOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getLogits();
  Value highest = b.reduceRows(ReduceKind::Max, x);
  Value e = b.exp(b.sub(x, b.alongRows(highest, x)));
  Value lse = b.add(b.log(b.reduceRows(ReduceKind::Sum, e)), highest);
  Value hit = b.select(atLabel(b, x, getLabels()), x, b.splat(x, 0));
  Value chosen = b.reduceRows(ReduceKind::Sum, hit);
  Value counted = counts(b, getLabels(), getIgnoreIndex());
  Value zero = b.splat(lse, 0);
  Value loss = b.select(counted, b.sub(lse, chosen), zero);
  Value one = b.select(counted, b.splat(lse, 1), zero);
  return {b.reduce(ReduceKind::Sum, loss, {0}), b.reduce(ReduceKind::Sum, one, {0}), lse};
}

Values CrossEntropyGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getLogits(), lse = getLse();
  Value p = b.exp(b.sub(x, b.alongRows(lse, x)));
  Value target = b.select(atLabel(b, x, getLabels()), b.splat(x, 1), b.splat(x, 0));
  Value counted = counts(b, getLabels(), getIgnoreIndex());
  Value factor = b.select(counted, b.scalar(getGrad(), lse), b.splat(lse, 0));
  Value product = b.mul(b.alongRows(factor, x), b.sub(p, target));
  // A row that does not count is 0 even where its logits are not finite.
  return {b.select(b.alongRows(counted, x), product, b.splat(x, 0))};
}
