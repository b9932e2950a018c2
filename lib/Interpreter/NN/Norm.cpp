//===- Norm.cpp - Normalizations over the last dimension ------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

struct Rows {
  explicit Rows(const Tensor &tensor)
      : width(tensor.dim(tensor.rank() - 1)), count(width ? tensor.size() / width : 0) {}
  int64_t width, count;
};

LogicalResult evaluateSoftmax(nn::SoftmaxOp, Call &call) {
  Rows rows(call.operand(0));
  const double *x = call.operand(0).floats();
  double *y = call.result().mutableFloats();
  for (int64_t r = 0; r < rows.count; ++r, x += rows.width, y += rows.width) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < rows.width; ++i)
      largest = std::isnan(x[i]) ? x[i] : std::max(largest, x[i]);
    for (int64_t i = 0; i < rows.width; ++i)
      sum += y[i] = std::exp(x[i] - largest);
    for (int64_t i = 0; i < rows.width; ++i)
      y[i] /= sum;
  }
  return success();
}

LogicalResult evaluateLayerNorm(nn::LayerNormOp op, Call &call) {
  Rows rows(call.operand(0));
  double epsilon = op.getEpsilon().convertToDouble();
  const double *x = call.operand(0).floats();
  const double *scale = call.operand(1).floats();
  const double *bias = call.operand(2).floats();
  double *y = call.result(0).mutableFloats();
  double *means = call.result(1).mutableFloats();
  double *rstds = call.result(2).mutableFloats();
  for (int64_t r = 0; r < rows.count; ++r, x += rows.width, y += rows.width) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < rows.width; ++i)
      mean += x[i];
    mean /= rows.width;
    for (int64_t i = 0; i < rows.width; ++i)
      variance += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / std::sqrt(variance / rows.width + epsilon);
    for (int64_t i = 0; i < rows.width; ++i)
      y[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
    means[r] = mean;
    rstds[r] = rstd;
  }
  return success();
}

// With n = (x - mean) rstd and h = dy scale:
// dx = rstd (h - mean(h) - n mean(h n)), dscale = sum dy n, dbias = sum dy.
LogicalResult evaluateLayerNormGrad(nn::LayerNormGradOp, Call &call) {
  Rows rows(call.operand(0));
  const double *x = call.operand(0).floats();
  const double *scale = call.operand(1).floats();
  const double *means = call.operand(2).floats();
  const double *rstds = call.operand(3).floats();
  const double *dy = call.operand(4).floats();
  double *dx = call.result(0).mutableFloats();
  double *dscale = call.result(1).mutableFloats();
  double *dbias = call.result(2).mutableFloats();
  std::fill_n(dscale, rows.width, 0.0);
  std::fill_n(dbias, rows.width, 0.0);
  for (int64_t r = 0; r < rows.count; ++r) {
    double meanH = 0, meanHN = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      double normal = (x[i] - means[r]) * rstds[r];
      meanH += dy[i] * scale[i];
      meanHN += dy[i] * scale[i] * normal;
      dscale[i] += dy[i] * normal;
      dbias[i] += dy[i];
    }
    meanH /= rows.width;
    meanHN /= rows.width;
    for (int64_t i = 0; i < rows.width; ++i) {
      double normal = (x[i] - means[r]) * rstds[r];
      dx[i] = rstds[r] * (dy[i] * scale[i] - meanH - normal * meanHN);
    }
    x += rows.width;
    dy += rows.width;
    dx += rows.width;
  }
  return success();
}

LogicalResult evaluateRmsNorm(nn::RmsNormOp op, Call &call) {
  Rows rows(call.operand(0));
  double epsilon = op.getEpsilon().convertToDouble();
  const double *x = call.operand(0).floats();
  const double *scale = call.operand(1).floats();
  double *y = call.result(0).mutableFloats();
  double *rstds = call.result(1).mutableFloats();
  for (int64_t r = 0; r < rows.count; ++r, x += rows.width, y += rows.width) {
    double sum = 0;
    for (int64_t i = 0; i < rows.width; ++i)
      sum += x[i] * x[i];
    rstds[r] = 1 / std::sqrt(sum / rows.width + epsilon);
    for (int64_t i = 0; i < rows.width; ++i)
      y[i] = x[i] * rstds[r] * scale[i];
  }
  return success();
}

// With n = x rstd and h = dy scale: dx = rstd (h - n mean(h n)),
// dscale = sum dy n.
LogicalResult evaluateRmsNormGrad(nn::RmsNormGradOp, Call &call) {
  Rows rows(call.operand(0));
  const double *x = call.operand(0).floats();
  const double *scale = call.operand(1).floats();
  const double *rstds = call.operand(2).floats();
  const double *dy = call.operand(3).floats();
  double *dx = call.result(0).mutableFloats();
  double *dscale = call.result(1).mutableFloats();
  std::fill_n(dscale, rows.width, 0.0);
  for (int64_t r = 0; r < rows.count; ++r) {
    double meanHN = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      double normal = x[i] * rstds[r];
      meanHN += dy[i] * scale[i] * normal;
      dscale[i] += dy[i] * normal;
    }
    meanHN /= rows.width;
    for (int64_t i = 0; i < rows.width; ++i)
      dx[i] = rstds[r] * (dy[i] * scale[i] - x[i] * rstds[r] * meanHN);
    x += rows.width;
    dy += rows.width;
    dx += rows.width;
  }
  return success();
}

LogicalResult evaluateRunningStatistic(nn::RunningStatisticOp, Call &call) {
  call.result() = call.operand(0);
  return success();
}

} // namespace

void registerNorm(Registry &registry) {
  registry.add<nn::SoftmaxOp>(evaluateSoftmax);
  registry.add<nn::LayerNormOp>(evaluateLayerNorm);
  registry.add<nn::LayerNormGradOp>(evaluateLayerNormGrad);
  registry.add<nn::RmsNormOp>(evaluateRmsNorm);
  registry.add<nn::RmsNormGradOp>(evaluateRmsNormGrad);
  registry.add<nn::RunningStatisticOp>(evaluateRunningStatistic);
}

} // namespace shale::interp
