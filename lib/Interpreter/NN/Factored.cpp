//===- Factored.cpp - Adafactor, LAMB, and their ops on flat groups -------===//
//
// nn.adafactor is evaluated matrix by matrix, as PyTorch's source computes it, and nn.lamb as its
// paper's algorithm. The ops on flat groups are evaluated element by element, from their
// descriptions. Comparing a program before and after shale-materialize-units holds one against the
// other.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

namespace {

double meanSquare(ArrayRef<double> values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return sum / values.size();
}

void lerp(double &value, double to, double weight) { value += (to - value) * weight; }

/// Updates the moment of matrices of `rows` times `columns` elements and sets `variance`.
void factor(ArrayRef<double> g, int64_t rows, int64_t columns, double weight, double epsilon,
            double *moment, std::vector<double> &variance) {
  int64_t size = rows * columns, matrices = g.size() / size;
  for (int64_t m = 0; m < matrices; ++m) {
    ArrayRef<double> matrix = g.slice(m * size, size);
    double *row = moment + m * rows, *column = moment + matrices * rows + m * columns, mean = 0;
    for (int64_t r = 0; r < rows; ++r) {
      lerp(row[r], meanSquare(matrix.slice(r * columns, columns)), weight);
      mean += row[r] / rows;
    }
    for (int64_t c = 0; c < columns; ++c) {
      std::vector<double> down;
      for (int64_t r = 0; r < rows; ++r)
        down.push_back(matrix[r * columns + c]);
      lerp(column[c], meanSquare(down), weight);
    }
    for (int64_t i = 0; i < size; ++i)
      variance[m * size + i] = row[i / columns] * column[i % columns] / std::max(mean, epsilon);
  }
}

LogicalResult evaluateAdafactor(nn::AdafactorOp op, Call &call) {
  call.results[0] = call.operand(0);
  call.results[1] = call.operand(2);
  if (!call.operand(3).ints()[0])
    return success();
  auto value = [&](unsigned number) { return call.operand(number).floats()[0]; };
  double scale = value(4), lr = value(5) * op.getRateFactor(), eps1 = value(7), eps2 = value(8),
         d = value(9), weightDecay = value(10), weight = value(11), limit = value(12);
  auto shape = cast<RankedTensorType>(op.getParam().getType()).getShape();
  int64_t count = call.operand(0).size();
  double *param = call.result(0).mutableFloats(), *moment = call.result(1).mutableFloats();
  double size = std::sqrt(meanSquare(ArrayRef(param, count)));
  std::vector<double> g, variance(count);
  for (int64_t i = 0; i < count; ++i)
    g.push_back(call.operand(1).floats()[i] * scale);
  if (count > 0 && shape.size() > 1) {
    factor(g, shape[shape.size() - 2], shape.back(), weight, eps1, moment, variance);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      lerp(moment[i], g[i] * g[i], weight);
      variance[i] = moment[i];
    }
  }
  std::vector<double> update;
  for (int64_t i = 0; i < count; ++i)
    update.push_back(g[i] / std::sqrt(std::max(variance[i], eps1 * eps1)));
  double alpha = std::max(eps2, size) * std::min(lr, limit);
  double clip = std::max(1.0, std::sqrt(meanSquare(update)) / d);
  for (int64_t i = 0; i < count; ++i)
    param[i] = param[i] * (1 - lr * weightDecay * op.getDecay().convertToDouble()) -
               alpha / clip * update[i];
  return success();
}

LogicalResult evaluateLamb(nn::LambOp op, Call &call) {
  for (unsigned i = 0; i < 3; ++i)
    call.results[i] = call.operand(i == 0 ? 0 : i + 1);
  if (!call.operand(4).ints()[0])
    return success();
  auto value = [&](unsigned number) { return call.operand(number).floats()[0]; };
  double scale = value(5), lr = value(6) * op.getRateFactor(), beta1 = value(7), beta2 = value(8),
         eps = value(9), lambda = value(10) * op.getDecayFactor(), bias1 = value(11),
         bias2 = value(12);
  double *x = call.result(0).mutableFloats(), *m = call.result(1).mutableFloats(),
         *v = call.result(2).mutableFloats();
  int64_t count = call.operand(0).size();
  std::vector<double> update;
  double xs = 0, updates = 0;
  for (int64_t i = 0; i < count; ++i) {
    double g = call.operand(1).floats()[i] * scale;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    double r = (m[i] / bias1) / (std::sqrt(v[i] / bias2) + eps);
    update.push_back(r + lambda * x[i]);
    xs += x[i] * x[i];
    updates += update.back() * update.back();
  }
  double trust = xs == 0 || updates == 0 ? 1 : std::sqrt(xs) / std::sqrt(updates);
  for (int64_t i = 0; i < count; ++i)
    x[i] -= lr * trust * update[i];
  return success();
}

//===- On flat groups -----------------------------------------------------===//

/// A segment of a flat group, of which the operands have elements from `shift`.
class Segment {
public:
  Segment(nn::FactoredRangeAttr range, int64_t shift, int64_t size) : range(range) {
    ArrayRef<int64_t> shape = range.getShape();
    count = range.getCount();
    factored = shape.size() > 1;
    if (factored) {
      columns = shape.back();
      rows = shape[shape.size() - 2];
    }
    begin = std::max<int64_t>(0, shift - range.getOffset());
    end = std::min(count, shift + size - range.getOffset());
    local = range.getOffset() - shift;
  }
  /// Calls fn(element of the segment, its place in the operands).
  template <typename Fn> void each(Fn fn) const {
    for (int64_t i = begin; i < end; ++i)
      fn(i, i + local);
  }
  int64_t row(int64_t i) const { return range.getAt() + (factored ? i / columns : i); }
  int64_t column(int64_t i) const {
    return range.getAt() + count / columns + i / (rows * columns) * columns + i % columns;
  }
  /// Returns the function that gives the direction at element i for the gradient g.
  auto direction(const double *moment, double epsilon) const {
    std::vector<double> means; // by matrix
    for (int64_t r = 0; factored && count > 0 && r < count / columns; ++r) {
      if (r % rows == 0)
        means.push_back(0);
      means.back() += moment[range.getAt() + r] / rows;
    }
    return [=](int64_t i, double g) {
      double variance = moment[row(i)];
      if (factored)
        variance *= moment[column(i)] / std::max(means[i / (rows * columns)], epsilon);
      return g / std::sqrt(std::max(variance, epsilon * epsilon));
    };
  }

  nn::FactoredRangeAttr range;
  int64_t count, rows = 1, columns = 1, begin, end, local;
  bool factored;
};

/// Calls fn(number, segment) for each segment.
template <typename Op, typename Fn> void forEachSegment(Op op, Call &call, Fn fn) {
  int64_t shift = op.getOffset() ? call.operands.back().ints()[0] : 0;
  for (auto [i, range] :
       llvm::enumerate(op.getSegments().template getAsRange<nn::FactoredRangeAttr>()))
    fn(i, Segment(range, shift, call.operand(0).size()));
}

LogicalResult evaluateFactorMeans(nn::FactorMeansOp op, Call &call) {
  const double *input = call.operand(0).floats();
  double scale = call.operand(1).floats()[0], *result = call.result().mutableFloats();
  std::fill_n(result, call.result().size(), 0);
  forEachSegment(op, call, [&](int64_t, const Segment &segment) {
    segment.each([&](int64_t i, int64_t at) {
      double square = input[at] * scale * (input[at] * scale);
      result[segment.row(i)] += square / segment.columns;
      if (segment.factored)
        result[segment.column(i)] += square / segment.rows;
    });
  });
  return success();
}

LogicalResult evaluateSegmentMeans(nn::SegmentMeansOp op, Call &call) {
  const double *input = call.operand(0).floats();
  double *result = call.result().mutableFloats();
  forEachSegment(op, call, [&](int64_t number, const Segment &segment) {
    result[number] = 0;
    segment.each(
        [&](int64_t, int64_t at) { result[number] += input[at] * input[at] / segment.count; });
  });
  return success();
}

LogicalResult evaluateSegmentBroadcast(nn::SegmentBroadcastOp op, Call &call) {
  double *result = call.result().mutableFloats();
  int64_t size = call.result().size();
  std::fill_n(result, size, 0);
  int64_t shift = op.getOffset() ? call.operands.back().ints()[0] : 0;
  const double *value = call.operand(0).floats();
  for (auto range : op.getSegments().getAsRange<nn::FactoredRangeAttr>()) {
    Segment(range, shift, size).each([&](int64_t, int64_t at) { result[at] = *value; });
    ++value;
  }
  return success();
}

LogicalResult evaluateDirectionMeans(nn::DirectionMeansOp op, Call &call) {
  const double *grad = call.operand(0).floats(), *moment = call.operand(2).floats();
  double scale = call.operand(1).floats()[0], epsilon = call.operand(3).floats()[0];
  double *result = call.result().mutableFloats();
  forEachSegment(op, call, [&](int64_t number, const Segment &segment) {
    auto direction = segment.direction(moment, epsilon);
    result[number] = 0;
    segment.each([&](int64_t i, int64_t at) {
      double u = direction(i, grad[at] * scale);
      result[number] += u * u / segment.count;
    });
  });
  return success();
}

LogicalResult evaluateFactoredStep(nn::FactoredStepOp op, Call &call) {
  call.results[0] = call.operand(0);
  if (!call.operand(2).ints()[0])
    return success();
  auto value = [&](unsigned number) { return call.operand(number).floats()[0]; };
  double scale = value(3), lr = value(4), weightDecay = value(5), epsilon = value(6);
  const double *grad = call.operand(1).floats(), *rates = call.operand(8).floats();
  double *param = call.result().mutableFloats();
  forEachSegment(op, call, [&](int64_t number, const Segment &segment) {
    auto direction = segment.direction(call.operand(7).floats(), epsilon);
    double decay = lr * weightDecay * segment.range.getDecay().getValueAsDouble();
    segment.each([&](int64_t i, int64_t at) {
      param[at] -= param[at] * decay + rates[number] * direction(i, grad[at] * scale);
    });
  });
  return success();
}

} // namespace

void registerFactored(Registry &registry) {
  registry.add<nn::AdafactorOp>(evaluateAdafactor);
  registry.add<nn::FactorMeansOp>(evaluateFactorMeans);
  registry.add<nn::SegmentMeansOp>(evaluateSegmentMeans);
  registry.add<nn::SegmentBroadcastOp>(evaluateSegmentBroadcast);
  registry.add<nn::LambOp>(evaluateLamb);
  registry.add<nn::DirectionMeansOp>(evaluateDirectionMeans);
  registry.add<nn::FactoredStepOp>(evaluateFactoredStep);
}

} // namespace shale::interp
