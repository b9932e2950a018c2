//===- Sort.cpp - Orders of elements --------------------------------------===//
#include "dialects/nn/Ops/Sort.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace shale::interp {

static LogicalResult evaluateTopK(nn::TopKOp op, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &values = call.result(0), &indices = call.result(1);
  int64_t size = input.shape().back(), count = values.shape().back();
  if (count == 0)
    return success();
  // Larger than all numbers: NaN. Integers are exact up to 2^53 as numbers, so they are compared as
  // integers.
  auto above = [&](int64_t a, int64_t b) {
    if (!input.isFloat())
      return input.ints()[a] > input.ints()[b];
    double x = input.number(a), y = input.number(b);
    return x > y || (std::isnan(x) && !std::isnan(y));
  };
  std::vector<int64_t> line(size);
  for (int64_t i = 0; i < indices.size() / count; ++i) {
    std::iota(line.begin(), line.end(), i * size);
    std::stable_sort(line.begin(), line.end(), [&](int64_t a, int64_t b) {
      return op.getSmallest() ? above(b, a) : above(a, b);
    });
    for (int64_t k = 0; k < count; ++k) {
      if (!input.isFloat())
        values.mutableInts()[i * count + k] = input.ints()[line[k]];
      else
        values.mutableFloats()[i * count + k] = input.floats()[line[k]];
      indices.mutableInts()[i * count + k] = line[k] - i * size;
    }
  }
  return success();
}

static LogicalResult evaluateArgsort(nn::ArgsortOp op, Call &call) {
  const Tensor &indices = call.operand(0);
  int64_t bound = op.getBound();
  auto key = [&](int64_t position) {
    int64_t value = indices.ints()[position];
    return value >= 0 && value < bound ? value : bound;
  };
  int64_t *order = call.result(0).mutableInts(), *starts = call.result(1).mutableInts();
  std::iota(order, order + indices.size(), int64_t(0));
  std::stable_sort(order, order + indices.size(),
                   [&](int64_t x, int64_t y) { return key(x) < key(y); });
  for (int64_t value = 0; value <= bound; ++value)
    starts[value] = std::partition_point(order, order + indices.size(),
                                         [&](int64_t position) { return key(position) < value; }) -
                    order;
  return success();
}

static LogicalResult evaluateSortedEmbeddingGrad(nn::SortedEmbeddingGradOp op, Call &call) {
  const int64_t *order = call.operand(0).ints(), *starts = call.operand(1).ints();
  const Tensor &grad = call.operand(2);
  Tensor &result = call.result(0), *squares = op.getSquares() ? &call.result(1) : nullptr;
  result.fill(0);
  int64_t V = result.dim(0), D = result.dim(1), N = grad.dim(0);
  for (int64_t v = 0; v < V; ++v) {
    double *y = result.mutableFloats() + v * D;
    auto add = [&](const double *row) {
      for (int64_t d = 0; d < D; ++d)
        y[d] += row[d];
    };
    int64_t end = std::clamp<int64_t>(starts[v + 1], 0, N);
    for (int64_t i = std::clamp<int64_t>(starts[v], 0, N); i < end;) {
      if (i % nn::kSortedPiece == 0 && i + nn::kSortedPiece <= end) {
        add(call.operand(3).floats() + i / nn::kSortedPiece * D);
        i += nn::kSortedPiece;
        continue;
      }
      if (order[i] >= 0 && order[i] < N)
        add(grad.floats() + order[i] * D);
      ++i;
    }
    if (squares)
      squares->setNumber(v, std::inner_product(y, y + D, y, 0.0));
  }
  return success();
}

void registerSort(Registry &registry) {
  registry.add<nn::TopKOp>(evaluateTopK);
  registry.add<nn::ArgsortOp>(evaluateArgsort);
  registry.add<nn::SortedEmbeddingGradOp>(evaluateSortedEmbeddingGrad);
}

} // namespace shale::interp
