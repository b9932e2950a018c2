//===- Norm.cpp - Normalizations in simpler ops ---------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Decompose/Composer.h"

using namespace mlir;
using namespace shale::nn;
using Values = SmallVector<Value>;

static double columns(Value x) {
  auto type = Composer::type(x);
  return double(type.getDimSize(type.getRank() - 1));
}

Values SoftmaxOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput();
  Value shifted = b.sub(x, b.alongRows(b.reduceRows(ReduceKind::Max, x), x));
  Value e = b.exp(shifted);
  return {b.div(e, b.alongRows(b.reduceRows(ReduceKind::Sum, e), x))};
}

Values LayerNormOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput();
  Value total = b.reduceRows(ReduceKind::Sum, x);
  Value n = b.splat(total, columns(x));
  Value mean = b.div(total, n);
  Value centred = b.sub(x, b.alongRows(mean, x));
  Value variance = b.div(b.reduceRows(ReduceKind::Sum, b.mul(centred, centred)), n);
  Value root = b.sqrt(b.add(variance, b.splat(variance, getEpsilon().convertToDouble())));
  Value rstd = b.div(b.splat(root, 1), root);
  Value normal = b.mul(centred, b.alongRows(rstd, x));
  Value y = b.add(b.mul(normal, b.alongColumns(getScale(), x)), b.alongColumns(getBias(), x));
  return {y, mean, rstd};
}

// With h = (x - mean) * rstd and d = dy * scale:
// dx = rstd * (d - mean(d) - h * mean(d * h)), dscale = sum dy * h, dbias = sum dy.
Values LayerNormGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput(), dy = getGrad();
  Value h = b.mul(b.sub(x, b.alongRows(getMean(), x)), b.alongRows(getRstd(), x));
  Value d = b.mul(dy, b.alongColumns(getScale(), x));
  Value n = b.splat(getMean(), columns(x));
  Value first = b.div(b.reduceRows(ReduceKind::Sum, d), n);
  Value second = b.div(b.reduceRows(ReduceKind::Sum, b.mul(d, h)), n);
  Value inner = b.sub(b.sub(d, b.alongRows(first, x)), b.mul(h, b.alongRows(second, x)));
  Value dx = b.mul(inner, b.alongRows(getRstd(), x));
  return {dx, b.sumColumns(b.mul(dy, h)), b.sumColumns(dy)};
}

Values RmsNormOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput();
  Value total = b.reduceRows(ReduceKind::Sum, b.mul(x, x));
  Value mean = b.div(total, b.splat(total, columns(x)));
  Value root = b.sqrt(b.add(mean, b.splat(mean, getEpsilon().convertToDouble())));
  Value rstd = b.div(b.splat(root, 1), root);
  Value y = b.mul(b.mul(x, b.alongRows(rstd, x)), b.alongColumns(getScale(), x));
  return {y, rstd};
}

// With h = x * rstd and d = dy * scale: dx = rstd * (d - h * mean(d * h)).
Values RmsNormGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput(), dy = getGrad();
  Value h = b.mul(x, b.alongRows(getRstd(), x));
  Value d = b.mul(dy, b.alongColumns(getScale(), x));
  Value total = b.reduceRows(ReduceKind::Sum, b.mul(d, h));
  Value mean = b.div(total, b.splat(total, columns(x)));
  Value dx = b.mul(b.sub(d, b.mul(h, b.alongRows(mean, x))), b.alongRows(getRstd(), x));
  return {dx, b.sumColumns(b.mul(dy, h))};
}
