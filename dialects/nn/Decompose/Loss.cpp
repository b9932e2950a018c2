//===- Loss.cpp - Cross-entropy in simpler ops ----------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Decompose/Composer.h"

using namespace mlir;
using namespace shale::nn;
using Values = SmallVector<Value>;

namespace {
/// True where the column is the row's label. Compares 32 bits where they hold every column: labels
/// that are none, those of other ranks for example, become -1 or the number of columns.
Value atLabel(Composer &b, Value logits, Value labels) {
  int64_t columns = Composer::type(logits).getDimSize(1);
  if (Composer::elementOf(labels).isInteger(64) && columns < INT32_MAX) {
    labels = b.max(b.min(labels, b.splat(labels, double(columns))), b.splat(labels, -1));
    labels = b.cast(labels, IntegerType::get(labels.getContext(), 32));
  }
  Value column = b.iota(Composer::shaped(logits, Composer::elementOf(labels)), 1);
  return b.compare(Predicate::EQ, column, b.alongRows(labels, logits));
}
} // namespace

/// Returns the logits, without columns that are no classes, and the labels, of which those of such
/// columns become -1.
template <typename Op>
static std::pair<Value, Value> operandsOf(Composer &b, OpBuilder &to, Op op) {
  Value logits = op.getLogits(), labels = op.getLabels();
  if (op.getClasses()) {
    int64_t classes = *op.getClasses();
    logits = withoutClassesFrom(to, op.getLoc(), logits, classes);
    Value exists = b.compare(Predicate::LT, labels, b.splat(labels, double(classes)));
    labels = b.select(exists, labels, b.splat(labels, -1));
  }
  return {logits, labels};
}

Values CrossEntropyOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  auto [x, labels] = operandsOf(b, builder, *this);
  Value highest = b.reduceRows(ReduceKind::Max, x);
  Value e = b.exp(b.sub(x, b.alongRows(highest, x)));
  Value lse = b.add(b.log(b.reduceRows(ReduceKind::Sum, e)), highest);
  Value hit = b.select(atLabel(b, x, labels), x, b.splat(x, 0));
  Value chosen = b.reduceRows(ReduceKind::Sum, hit);
  Value counted = countedRows(builder, getLoc(), getLabels(), getIgnoreIndex());
  Value zero = b.splat(lse, 0);
  Value loss = b.select(counted, b.sub(lse, chosen), zero);
  Value one = b.select(counted, b.splat(lse, 1), zero);
  return {b.reduce(ReduceKind::Sum, loss, {0}), b.reduce(ReduceKind::Sum, one, {0}), lse};
}

Values CrossEntropyGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  auto [x, labels] = operandsOf(b, builder, *this);
  Value lse = getLse();
  Value counted = countedRows(builder, getLoc(), getLabels(), getIgnoreIndex());
  // A row that does not count is 0 even where its logits are not finite.
  Value power = b.select(b.alongRows(counted, x), b.sub(x, b.alongRows(lse, x)),
                         b.splat(x, -std::numeric_limits<double>::infinity()));
  Value target = b.select(atLabel(b, x, labels), b.splat(x, 1), b.splat(x, 0));
  Value factor = b.select(counted, b.scalar(getGrad(), lse), b.splat(lse, 0));
  return {b.mul(b.alongRows(factor, x), b.sub(b.exp(power), target))};
}
