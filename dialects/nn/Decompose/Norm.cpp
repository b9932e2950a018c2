//===- Norm.cpp - Normalizations in simpler ops ---------------------------===//
#include "dialects/nn/Decompose/Norm.h"
#include "dialects/nn/Ops/Norm.h"

using namespace mlir;
using namespace shale::nn;
using Values = SmallVector<Value>;

Values SoftmaxOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput();
  Value shifted = b.sub(x, b.alongRows(b.reduceRows(ReduceKind::Max, x), x));
  Value e = b.exp(shifted);
  return {b.div(e, b.alongRows(b.reduceRows(ReduceKind::Sum, e), x))};
}

/// Returns the mean of each row of x.
static Value meanOf(Composer &b, const Rows &rows, Value x) {
  Value sum = b.reduceRows(ReduceKind::Sum, x);
  for (const shale::SplitAxis &axis : rows.axes)
    sum = b.sumOver(axis.name, sum);
  return b.div(sum, b.splat(sum, double(rows.columns)));
}

/// Returns 1 / sqrt(x + epsilon).
static Value reciprocalRoot(Composer &b, Value x, double epsilon) {
  Value root = b.sqrt(b.add(x, b.splat(x, epsilon)));
  return b.div(b.splat(root, 1), root);
}

// The variance is the mean of squares of centred values, as a sum of squares would cancel: over
// ranks, two sums per row.
Values shale::nn::layerNorm(Composer &b, const Rows &rows, ValueRange operands, double epsilon) {
  Value x = operands[0], scale = operands[1], bias = operands[2];
  Value mean = meanOf(b, rows, x);
  Value centred = b.sub(x, b.alongRows(mean, x));
  Value rstd = reciprocalRoot(b, meanOf(b, rows, b.mul(centred, centred)), epsilon);
  Value normal = b.mul(centred, b.alongRows(rstd, x));
  Value y = b.add(b.mul(normal, b.alongColumns(scale, x)), b.alongColumns(bias, x));
  return {y, mean, rstd};
}

// With h = (x - mean) * rstd and d = dy * scale:
// dx = rstd * (d - mean(d) - h * mean(d * h)), dscale = sum dy * h, dbias = sum dy.
Values shale::nn::layerNormGrad(Composer &b, const Rows &rows, ValueRange operands) {
  Value x = operands[0], scale = operands[1], mean = operands[2], rstd = operands[3],
        dy = operands[4];
  Value h = b.mul(b.sub(x, b.alongRows(mean, x)), b.alongRows(rstd, x));
  Value d = b.mul(dy, b.alongColumns(scale, x));
  Value first = meanOf(b, rows, d);
  Value second = meanOf(b, rows, b.mul(d, h));
  Value inner = b.sub(b.sub(d, b.alongRows(first, x)), b.mul(h, b.alongRows(second, x)));
  Value dx = b.mul(inner, b.alongRows(rstd, x));
  return {dx, b.sumColumns(b.mul(dy, h)), b.sumColumns(dy)};
}

Values shale::nn::rmsNorm(Composer &b, const Rows &rows, ValueRange operands, double epsilon) {
  Value x = operands[0], scale = operands[1];
  Value rstd = reciprocalRoot(b, meanOf(b, rows, b.mul(x, x)), epsilon);
  return {b.mul(b.mul(x, b.alongRows(rstd, x)), b.alongColumns(scale, x)), rstd};
}

// With h = x * rstd and d = dy * scale: dx = rstd * (d - h * mean(d * h)).
Values shale::nn::rmsNormGrad(Composer &b, const Rows &rows, ValueRange operands) {
  Value x = operands[0], scale = operands[1], rstd = operands[2], dy = operands[3];
  Value h = b.mul(x, b.alongRows(rstd, x));
  Value d = b.mul(dy, b.alongColumns(scale, x));
  Value mean = meanOf(b, rows, b.mul(d, h));
  Value dx = b.mul(b.sub(d, b.mul(h, b.alongRows(mean, x))), b.alongRows(rstd, x));
  return {dx, b.sumColumns(b.mul(dy, h))};
}

static Rows wholeRowsOf(Value x) { return {Composer::type(x).getShape().back(), {}}; }

Values LayerNormOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  return layerNorm(b, wholeRowsOf(getInput()), getOperands(), getEpsilon().convertToDouble());
}

Values LayerNormGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  return layerNormGrad(b, wholeRowsOf(getInput()), getOperands());
}

Values RmsNormOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  return rmsNorm(b, wholeRowsOf(getInput()), getOperands(), getEpsilon().convertToDouble());
}

Values RmsNormGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  return rmsNormGrad(b, wholeRowsOf(getInput()), getOperands());
}
