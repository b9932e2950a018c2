//===- Loss.cpp - Cross-entropy -------------------------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

static LogicalResult evaluateCrossEntropy(nn::CrossEntropyOp op, Call &call) {
  const Tensor &logits = call.operand(0);
  const int64_t *labels = call.operand(1).ints();
  int64_t N = logits.dim(0), V = logits.dim(1), classes = op.getClasses().value_or(V);
  int64_t ignored = op.getIgnoreIndex();
  const double *x = logits.floats();
  double *lse = call.result(2).mutableFloats();
  double sum = 0, count = 0;
  for (int64_t n = 0; n < N; ++n, x += V) {
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t v = 0; v < classes; ++v)
      largest = std::isnan(x[v]) ? x[v] : std::max(largest, x[v]);
    for (int64_t v = 0; v < classes; ++v)
      total += std::exp(x[v] - largest);
    lse[n] = std::isinf(largest) ? largest : largest + std::log(total);
    if (labels[n] == ignored)
      continue;
    sum += lse[n] - (labels[n] >= 0 && labels[n] < classes ? x[labels[n]] : 0);
    ++count;
  }
  call.result(0).setNumber(0, sum);
  call.result(1).setNumber(0, count);
  return success();
}

static LogicalResult evaluateCrossEntropyGrad(nn::CrossEntropyGradOp op, Call &call) {
  const Tensor &logits = call.operand(0);
  const int64_t *labels = call.operand(1).ints();
  const double *lse = call.operand(2).floats();
  double grad = call.operand(3).floats()[0];
  int64_t N = logits.dim(0), V = logits.dim(1), classes = op.getClasses().value_or(V);
  int64_t ignored = op.getIgnoreIndex();
  const double *x = logits.floats();
  double *y = call.result().mutableFloats();
  for (int64_t n = 0; n < N; ++n, x += V, y += V)
    for (int64_t v = 0; v < V; ++v)
      y[v] = labels[n] == ignored || v >= classes
                 ? 0
                 : grad * (std::exp(x[v] - lse[n]) - (v == labels[n]));
  return success();
}

void registerLoss(Registry &registry) {
  registry.add<nn::CrossEntropyOp>(evaluateCrossEntropy);
  registry.add<nn::CrossEntropyGradOp>(evaluateCrossEntropyGrad);
}

} // namespace shale::interp
