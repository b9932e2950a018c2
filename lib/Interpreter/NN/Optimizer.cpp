//===- Optimizer.cpp - Parameter updates ----------------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

namespace {

LogicalResult evaluateSumSquares(nn::SumSquaresOp, Call &call) {
  double sum = 0;
  for (const Tensor &input : call.operands)
    for (int64_t i = 0; i < input.size(); ++i)
      sum += input.floats()[i] * input.floats()[i];
  call.result().setNumber(0, sum);
  return success();
}

/// Calls fn(begin, end, decay) for each range of local elements with one decay
/// factor. Padding is in no range. `offset` is the index of the first local
/// element in the group.
template <typename Fn>
void forEachSegment(std::optional<ArrayAttr> segments, double decay,
                    int64_t offset, int64_t size, Fn fn) {
  if (!segments)
    return fn(int64_t(0), size, decay);
  for (Attribute attr : *segments) {
    auto segment = cast<nn::SegmentAttr>(attr);
    int64_t begin = std::max<int64_t>(segment.getOffset() - offset, 0);
    int64_t end = std::min<int64_t>(
        segment.getOffset() + segment.getCount() - offset, size);
    if (begin < end)
      fn(begin, end, segment.getDecay().getValueAsDouble());
  }
}

LogicalResult evaluateAdamw(nn::AdamwOp op, Call &call) {
  for (unsigned i = 0; i < 3; ++i)
    call.results[i] = call.operand(i == 0 ? 0 : i + 1);
  if (!call.operand(4).ints()[0])
    return success();
  auto value = [&](unsigned i) { return call.operand(i).floats()[0]; };
  double scale = value(5), lr = value(6), beta1 = value(7), beta2 = value(8);
  double epsilon = value(9), weightDecay = value(10);
  double bias1 = value(11), bias2 = value(12);
  int64_t offset = op.getOffset() ? call.operand(13).ints()[0] : 0;
  const double *grad = call.operand(1).floats();
  double *param = call.result(0).mutableFloats();
  double *moment1 = call.result(1).mutableFloats();
  double *moment2 = call.result(2).mutableFloats();
  forEachSegment(
      op.getSegments(), op.getDecay().convertToDouble(), offset,
      call.operand(0).size(), [&](int64_t begin, int64_t end, double decay) {
        for (int64_t i = begin; i < end; ++i) {
          double g = grad[i] * scale;
          param[i] *= 1 - lr * weightDecay * decay;
          moment1[i] += (g - moment1[i]) * (1 - beta1);
          moment2[i] = moment2[i] * beta2 + g * g * (1 - beta2);
          double denominator =
              std::sqrt(moment2[i]) / std::sqrt(bias2) + epsilon;
          param[i] -= lr / bias1 * moment1[i] / denominator;
        }
      });
  return success();
}

LogicalResult evaluateSgd(nn::SgdOp op, Call &call) {
  call.results[0] = call.operand(0);
  call.results[1] = call.operand(2);
  if (!call.operand(3).ints()[0])
    return success();
  auto value = [&](unsigned i) { return call.operand(i).floats()[0]; };
  double scale = value(4), lr = value(5), momentum = value(6);
  double weightDecay = value(7);
  int64_t offset = op.getOffset() ? call.operand(8).ints()[0] : 0;
  const double *grad = call.operand(1).floats();
  double *param = call.result(0).mutableFloats();
  double *velocity = call.result(1).mutableFloats();
  forEachSegment(
      op.getSegments(), op.getDecay().convertToDouble(), offset,
      call.operand(0).size(), [&](int64_t begin, int64_t end, double decay) {
        for (int64_t i = begin; i < end; ++i) {
          double g = grad[i] * scale + param[i] * weightDecay * decay;
          velocity[i] = velocity[i] * momentum + g;
          param[i] -= lr * velocity[i];
        }
      });
  return success();
}

LogicalResult evaluateAccumulate(nn::AccumulateOp op, Call &call) {
  const double *gradient = call.operand(0).floats();
  const double *before = op.getInto() ? call.operand(1).floats() : nullptr;
  double *result = call.result().mutableFloats();
  for (int64_t i = 0, e = call.operand(0).size(); i < e; ++i)
    result[i] = before ? before[i] + gradient[i] : gradient[i];
  return success();
}

} // namespace

void registerOptimizer(Registry &registry) {
  registry.add<nn::AccumulateOp>(evaluateAccumulate);
  registry.add<nn::SumSquaresOp>(evaluateSumSquares);
  registry.add<nn::AdamwOp>(evaluateAdamw);
  registry.add<nn::SgdOp>(evaluateSgd);
}

} // namespace shale::interp
