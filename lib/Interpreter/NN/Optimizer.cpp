//===- Optimizer.cpp - Parameter updates ----------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Philox.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include "llvm/ADT/bit.h"
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

/// Calls fn(begin, end, decay, rate) for each range of local elements with one factor on the weight
/// decay and one on the learning rate. Padding is in no range. `offset` is the index of the first
/// local element in the group.
template <typename Fn>
void forEachSegment(std::optional<ArrayAttr> segments, double decay, double rate, int64_t offset,
                    int64_t size, Fn fn) {
  if (!segments)
    return fn(int64_t(0), size, decay, rate);
  for (Attribute attr : *segments) {
    auto segment = cast<nn::UpdateRangeAttr>(attr);
    int64_t begin = std::max<int64_t>(segment.getOffset() - offset, 0);
    int64_t end = std::min<int64_t>(segment.getOffset() + segment.getCount() - offset, size);
    if (begin < end)
      fn(begin, end, segment.getDecay().getValueAsDouble(), segment.getRateFactor());
  }
}

/// The formula of an update in f64, written apart from the op's emitUpdate, which kernels use. `x`
/// are the parameter and its state, `g` the scaled gradient, `h` the scalars in the order of the
/// op's operands.
using Formula = void (*)(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h);

/// lr, beta1, beta2, epsilon, weight_decay, bias1, bias2.
void adamw(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  x[0] *= 1 - h[0] * h[4] * decay;
  x[1] += (g - x[1]) * (1 - h[1]);
  x[2] = x[2] * h[2] + g * g * (1 - h[2]);
  x[0] -= h[0] / h[5] * x[1] / (std::sqrt(x[2]) / std::sqrt(h[6]) + h[3]);
}

/// lr, momentum, weight_decay.
void sgd(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  x[1] = x[1] * h[1] + (g + x[0] * h[2] * decay);
  x[0] -= h[0] * x[1];
}

/// lr, beta1, beta2, weight_decay.
void lion(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  double direction = h[1] * x[1] + (1 - h[1]) * g;
  x[0] -= h[0] * h[3] * decay * x[0];
  x[0] -= direction > 0 ? h[0] : direction < 0 ? -h[0] : h[0] * direction; // a NaN stays one
  x[1] = h[2] * x[1] + (1 - h[2]) * g;
}

/// lr, alpha, beta, epsilon, norm_coefficient, decoupled_decay, norm_coefficient_post and the two
/// corrections.
void adam(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  double regularized = h[4] * decay * x[0] + g;
  x[1] = h[1] * x[1] + (1 - h[1]) * regularized;
  x[2] = h[2] * x[2] + (1 - h[2]) * regularized * regularized;
  double adjusted = h[0] * std::sqrt(h[8]) / h[7];
  double next = x[0] - adjusted * x[1] / (std::sqrt(x[2]) + h[3]);
  x[0] = next - (h[0] * h[5] + h[6]) * decay * next;
}

/// lr, lr_decay, epsilon, weight_decay, rate.
void adagrad(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  double regularized = h[3] * decay * x[0] + g;
  x[1] += regularized * regularized;
  x[0] -= h[0] * h[4] * regularized / (std::sqrt(x[1]) + h[2]);
}

/// lr, momentum, gradient_weight, nesterov, weight_decay, weight.
void momentum(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  double regularized = h[4] * decay * x[0] + g;
  x[1] = h[1] * x[1] + h[5] * regularized;
  double ahead = regularized + h[1] * x[1];
  x[0] -= h[0] * (h[3] * ahead + (1 - h[3]) * x[1]);
}

/// lr, beta, weight_decay; x[2] is the direction.
void muonStep(MutableArrayRef<double> x, double g, double decay, ArrayRef<double> h) {
  x[0] = x[0] - h[0] * h[2] * decay * x[0] - h[0] * x[2];
  x[1] = h[1] * x[1] + (1 - h[1]) * g;
}

/// No scalars: g is the new parameter.
void assign(MutableArrayRef<double> x, double g, double, ArrayRef<double>) { x[0] = g; }

/// The values of scalar operands.
struct Scalars {
  Call &call;
  explicit Scalars(Call &call) : call(call) {}
  double operator()(OpOperand &operand) const {
    return call.operand(operand.getOperandNumber()).floats()[0];
  }
};

/// A matrix of rows times columns, row by row.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> at;

  Matrix transposed() const {
    Matrix result{columns, rows, std::vector<double>(at.size())};
    for (int64_t i = 0; i < rows * columns; ++i)
      result.at[i % columns * rows + i / columns] = at[i];
    return result;
  }
  Matrix times(const Matrix &other) const {
    Matrix result{rows, other.columns, std::vector<double>(rows * other.columns)};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < columns; ++k)
        for (int64_t c = 0; c < other.columns; ++c)
          result.at[r * other.columns + c] += at[r * columns + k] * other.at[k * other.columns + c];
    return result;
  }
};

/// The loop of Jordan's page, whose matrix is never taller than wide, on the whole parameter.
LogicalResult evaluateMuon(nn::MuonOp op, Call &call) {
  call.results[0] = call.operand(0);
  call.results[1] = call.operand(2);
  if (!call.operand(op.getEnableMutable().getOperandNumber()).ints()[0])
    return success();
  Scalars value(call);
  double scale = value(op.getScaleMutable()), lr = value(op.getLrMutable()) * op.getRateFactor(),
         beta = value(op.getBetaMutable()), nesterov = value(op.getNesterovMutable()),
         match = value(op.getMatchRmsAdamwMutable()),
         decay = value(op.getWeightDecayMutable()) * op.getDecayFactor();
  // The constants of a program in f32 are f32, whatever its values are evaluated in.
  bool single = op.getScale().getType().getElementType().isF32();
  auto constant = [&](double exact) { return single ? double(float(exact)) : exact; };
  double *param = call.result(0).mutableFloats(), *momentum = call.result(1).mutableFloats();
  Matrix x{call.operand(0).dim(0), call.operand(0).dim(1), {}};
  double rows = x.rows, columns = x.columns, squares = 0;
  for (int64_t i = 0, e = call.operand(0).size(); i < e; ++i) {
    double g = call.operand(1).floats()[i] * scale;
    momentum[i] = beta * momentum[i] + (1 - beta) * g;
    x.at.push_back(nesterov * (beta * momentum[i] + (1 - beta) * g) + (1 - nesterov) * momentum[i]);
    squares += x.at.back() * x.at.back();
  }
  for (double &each : x.at)
    each /= std::max(std::sqrt(squares), 1e-7);
  bool tall = x.rows > x.columns;
  if (tall)
    x = x.transposed();
  for (int step = 0; step < 5; ++step) {
    Matrix a = x.times(x.transposed()), b = a.times(a);
    for (size_t i = 0; i < a.at.size(); ++i)
      b.at[i] = constant(-4.7750) * a.at[i] + constant(2.0315) * b.at[i];
    Matrix y = b.times(x);
    for (size_t i = 0; i < x.at.size(); ++i)
      x.at[i] = constant(3.4445) * x.at[i] + y.at[i];
  }
  if (tall)
    x = x.transposed();
  double factor = match * constant(0.2 * std::sqrt(std::max(rows, columns))) +
                  (1 - match) * constant(std::sqrt(std::max(1.0, rows / columns)));
  for (int64_t i = 0, e = call.operand(0).size(); i < e; ++i)
    param[i] = param[i] * (1 - lr * decay) - lr * factor * x.at[i];
  return success();
}

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
  if (!call.operand(op.getEnableMutable().getOperandNumber()).ints()[0])
    return success();
  Scalars value(call);
  double scale = value(op.getScaleMutable()), lr = value(op.getLrMutable()) * op.getRateFactor(),
         eps1 = value(op.getEpsilon1Mutable()), eps2 = value(op.getEpsilon2Mutable()),
         d = value(op.getClipMutable()), weightDecay = value(op.getWeightDecayMutable()),
         weight = value(op.getWeightMutable()), limit = value(op.getLimitMutable());
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
  if (!call.operand(op.getEnableMutable().getOperandNumber()).ints()[0])
    return success();
  Scalars value(call);
  double scale = value(op.getScaleMutable()), lr = value(op.getLrMutable()) * op.getRateFactor(),
         beta1 = value(op.getBeta1Mutable()), beta2 = value(op.getBeta2Mutable()),
         eps = value(op.getEpsilonMutable()),
         lambda = value(op.getWeightDecayMutable()) * op.getDecayFactor(),
         bias1 = value(op.getBias1Mutable()), bias2 = value(op.getBias2Mutable());
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

LogicalResult evaluateUpdate(OptimizerUpdateOpInterface op, Call &call, Formula formula) {
  unsigned count = op->getNumResults();
  call.results[0] = call.operand(op.getParameterOperand().getOperandNumber());
  for (auto [i, state] : llvm::enumerate(op.getStateOperands()))
    call.results[i + 1] = call.operand(state->getOperandNumber());
  if (!call.operand(op.getEnableNumber()).ints()[0])
    return success();
  auto value = [&](unsigned number) { return call.operand(number).floats()[0]; };
  double scale = value(op.getEnableNumber() + 1);
  SmallVector<double> hypers(llvm::map_range(op.getHyperNumbers(), value));
  int64_t offset = op.getGroupOffset() ? call.operands.back().ints()[0] : 0;
  const double *grad = call.operand(op.getGradientOperand().getOperandNumber()).floats();
  SmallVector<double *> results;
  for (unsigned r = 0; r < count; ++r)
    results.push_back(call.result(r).mutableFloats());
  std::optional<ArrayAttr> segments;
  if (ArrayAttr given = op.getGroupSegments())
    segments = given;
  SmallVector<double> element(count);
  forEachSegment(segments, op.getDecayFactor(), op.getRateFactor(), offset, call.operand(0).size(),
                 [&](int64_t begin, int64_t end, double decay, double rate) {
                   SmallVector<double> own(hypers);
                   if (!own.empty())
                     own[0] *= rate; // the learning rate is the first scalar of every formula
                   for (int64_t i = begin; i < end; ++i) {
                     for (unsigned r = 0; r < count; ++r)
                       element[r] = results[r][i];
                     formula(element, grad[i] * scale, decay, own);
                     for (unsigned r = 0; r < count; ++r)
                       results[r][i] = element[r];
                   }
                 });
  return success();
}

/// A moment in blocks (nn.adamw8bit): the values of its codes, each found in a table.
class CodedMoment {
public:
  CodedMoment(int64_t *words, bool isSigned) : words(words), isSigned(isSigned) {
    table.push_back(0);
    for (int c = 1, top = isSigned ? 127 : 255; c <= top; ++c) {
      int eighths = (c - top) % 8;
      table.push_back(std::ldexp(1 + (eighths < 0 ? eighths + 8 : eighths) / 8.0,
                                 int(std::floor((c - top) / 8.0))));
    }
  }
  /// Returns the values of the block that begins at word `at`.
  std::vector<double> load(int64_t at) const {
    std::vector<double> values;
    double scale = llvm::bit_cast<float>(static_cast<int32_t>(words[at + 64]));
    for (int64_t i = 0; i < 256; ++i) {
      int code = uint32_t(words[at + i % 64]) >> (8 * (i / 64)) & 255;
      bool negative = isSigned && code >= 128;
      values.push_back((negative ? -table[code - 128] : table[code]) * scale);
    }
    return values;
  }
  void store(int64_t at, ArrayRef<double> values) const {
    double most = 0;
    for (double value : values)
      most = std::max(most, std::abs(value));
    float scale = most;
    words[at + 64] = llvm::bit_cast<int32_t>(scale);
    for (int64_t j = 0; j < 64; ++j) {
      uint32_t word = 0;
      for (int64_t k = 0; k < 4; ++k)
        word |= uint32_t(codeOf(values[j + 64 * k], scale)) << (8 * k);
      words[at + j] = static_cast<int32_t>(word);
    }
  }

private:
  int codeOf(double value, double scale) const {
    double size = scale > 0 ? std::abs(value) / scale : 0;
    // Code 1 is 1.25 times a power of two; half a step below it values become 0.
    double least = table[1] / 1.25 * 1.1875;
    int code = size >= least;
    while (code > 0 && code + 1 < int(table.size()) && size >= (table[code] + table[code + 1]) / 2)
      ++code;
    if (!isSigned)
      return value > 0 ? std::max(code, 1) : code;
    return code + (std::signbit(value) ? 128 : 0);
  }

  int64_t *words;
  bool isSigned;
  std::vector<double> table;
};

LogicalResult evaluateAdamw8bit(nn::Adamw8bitOp op, Call &call) {
  for (unsigned i = 0; i < 3; ++i)
    call.results[i] = call.operand(i == 0 ? 0 : i + 1);
  if (!call.operand(4).ints()[0])
    return success();
  auto value = [&](unsigned number) { return call.operand(number).floats()[0]; };
  SmallVector<double> hypers(llvm::map_range(op.getHyperNumbers(), value));
  int64_t offset = op.getOffset() ? call.operands.back().ints()[0] : 0;
  double *param = call.result(0).mutableFloats();
  CodedMoment first(call.result(1).mutableInts(), true),
      second(call.result(2).mutableInts(), false);
  forEachSegment(
      op.getSegments(), op.getDecayFactor(), op.getRateFactor(), offset, call.operand(0).size(),
      [&](int64_t begin, int64_t end, double decay, double rate) {
        SmallVector<double> own(hypers);
        own[0] *= rate;
        for (int64_t at = begin; at < end; at += 256) {
          std::vector<double> m = first.load(at / 256 * 65), v = second.load(at / 256 * 65);
          for (int64_t i = 0; i < std::min<int64_t>(256, end - at); ++i) {
            double x[] = {param[at + i], m[i], v[i]};
            adamw(x, call.operand(1).floats()[at + i] * value(5), decay, own);
            param[at + i] = x[0], m[i] = x[1], v[i] = x[2];
          }
          first.store(at / 256 * 65, m);
          second.store(at / 256 * 65, v);
        }
      });
  return success();
}

/// Rounds an f32 to one of the two bf16 numbers around it: to the one further from 0 if the upper
/// half of the word is at least 1 minus the fraction of the way to it.
double roundByWord(double value, uint32_t word) {
  double size = std::abs(value);
  constexpr double largest = 0x1.FEp127, least = 0x1p-133; // of bf16
  if (!(size <= largest) || size == 0)
    return value; // rounded to nearest later
  double spacing = std::max(std::ldexp(1.0, std::ilogb(size) - 7), least);
  double below = std::floor(size / spacing), fraction = size / spacing - below;
  double rounded = (below + (fraction + (word >> 16) * 0x1p-16 >= 1)) * spacing;
  return std::copysign(rounded, value);
}

/// Rounds the new parameters of an update that rounds stochastically.
LogicalResult roundParameter(OptimizerUpdateOpInterface op, Call &call, LogicalResult evaluated) {
  auto rounding = cast<nn::RoundedUpdateOpInterface>(op.getOperation());
  if (failed(evaluated) || !rounding.isRoundedStochastically() || call.interpreter.options.asF64 ||
      !call.operand(op.getEnableNumber()).ints()[0])
    return evaluated;
  auto scalar = [&](unsigned number) { return uint64_t(call.operand(number).ints()[0]); };
  uint64_t seed = scalar(rounding.getSeedNumber()), step = scalar(rounding.getSeedNumber() + 1);
  double *param = call.result(0).mutableFloats();
  auto round = [&](int64_t begin, int64_t end, int64_t shift) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t number = i + shift, block = number / 4;
      nn::PhiloxWords words = nn::philox({uint32_t(block), uint32_t(block >> 32) | 0xFFFF0000u,
                                          uint32_t(step), uint32_t(step >> 32)},
                                         {uint32_t(seed), uint32_t(seed >> 32)});
      param[i] = roundByWord(float(param[i]), words[number % 4]);
    }
  };
  int64_t size = call.operand(0).size();
  ArrayAttr segments = op.getGroupSegments();
  if (!segments)
    round(0, size, rounding.getRoundedNumber(0));
  else
    for (auto [k, segment] : llvm::enumerate(segments.getAsRange<nn::UpdateRangeAttr>())) {
      int64_t offset = op.getGroupOffset() ? call.operands.back().ints()[0] : 0;
      int64_t begin = std::max<int64_t>(segment.getOffset() - offset, 0);
      int64_t end = std::min<int64_t>(segment.getOffset() + segment.getCount() - offset, size);
      round(begin, end, offset + rounding.getRoundedNumber(k) - segment.getOffset());
    }
  return success();
}

template <typename Op> void addUpdate(Registry &registry, LogicalResult (*evaluate)(Op, Call &)) {
  registry.add<Op>([evaluate](Op op, Call &call) {
    return roundParameter(cast<OptimizerUpdateOpInterface>(op.getOperation()), call,
                          evaluate(op, call));
  });
}

template <typename Op> void addUpdate(Registry &registry, Formula formula) {
  registry.add<Op>([formula](Op op, Call &call) {
    auto update = cast<OptimizerUpdateOpInterface>(op.getOperation());
    return roundParameter(update, call, evaluateUpdate(update, call, formula));
  });
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
  addUpdate<nn::AdamwOp>(registry, adamw);
  addUpdate<nn::Adamw8bitOp>(registry, evaluateAdamw8bit);
  addUpdate<nn::AssignOp>(registry, assign);
  addUpdate<nn::SgdOp>(registry, sgd);
  addUpdate<nn::LionOp>(registry, lion);
  addUpdate<nn::AdamOp>(registry, adam);
  addUpdate<nn::AdagradOp>(registry, adagrad);
  addUpdate<nn::MomentumOp>(registry, momentum);
  addUpdate<nn::MuonStepOp>(registry, muonStep);
  addUpdate<nn::MuonOp>(registry, evaluateMuon);
  addUpdate<nn::AdafactorOp>(registry, evaluateAdafactor);
  addUpdate<nn::LambOp>(registry, evaluateLamb);
}

} // namespace shale::interp
