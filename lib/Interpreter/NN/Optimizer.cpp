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

/// Calls fn(begin, end, factors) for each range of local elements with the same factors. Padding is
/// in no range. `offset` is the index of the first local element in the group.
template <typename Fn>
void forEachSegment(OptimizerUpdateOpInterface op, int64_t offset, int64_t size, Fn fn) {
  if (!op.getGroupSegments())
    return fn(int64_t(0), size, op.getUpdateFactors());
  for (Attribute attr : op.getGroupSegments()) {
    auto segment = cast<nn::UpdateRangeAttr>(attr);
    int64_t begin = std::max<int64_t>(segment.getOffset() - offset, 0);
    int64_t end = std::min<int64_t>(segment.getOffset() + segment.getCount() - offset, size);
    if (begin < end)
      fn(begin, end, segment.getFactors());
  }
}

/// Starts an update: its results are the operands with the parameter and the state. Returns whether
/// the update is enabled.
bool begin(OptimizerUpdateOpInterface op, Call &call) {
  call.results[0] = call.operand(op.getParameterOperand().getOperandNumber());
  for (auto [i, state] : llvm::enumerate(op.getStateOperands()))
    call.results[i + 1] = call.operand(state->getOperandNumber());
  return call.operand(op.getEnableNumber()).ints()[0];
}

/// The operands of an update as numbers, under their names.
template <typename Op> using Numbers = typename Op::template GenericAdaptor<ArrayRef<double>>;

/// Returns the scalars among the operands of an update: `scale`, and those of the formula, which
/// `factors` multiply (null: all are 1).
std::vector<double> scalarsOf(OptimizerUpdateOpInterface op, Call &call,
                              UpdateFactorsAttrInterface factors) {
  std::vector<double> values(op->getNumOperands());
  unsigned scale = op.getEnableNumber() + 1;
  values[scale] = call.operand(scale).floats()[0];
  for (unsigned number : op.getHyperNumbers()) {
    values[number] = call.operand(number).floats()[0];
    if (std::optional<unsigned> factor = op.getFactorOn(number); factor && factors)
      values[number] *= factors.getFactor(*factor);
  }
  return values;
}

/// The formula of an elementwise update in f64, written apart from the op's emitUpdate, which
/// kernels use. The gradient is scaled. Returns the new parameter and state.
using Results = SmallVector<double, 3>;
template <typename Op> using Formula = Results (*)(Numbers<Op> in);

/// The formula of nn.adamw and nn.adamw8bit.
template <typename Op> Results adamw(Numbers<Op> in) {
  double g = in.getGrad(), beta1 = in.getBeta1(), beta2 = in.getBeta2();
  double x = in.getParam() * (1 - in.getLr() * in.getWeightDecay());
  double m = in.getMoment1() + (g - in.getMoment1()) * (1 - beta1);
  double v = in.getMoment2() * beta2 + g * g * (1 - beta2);
  double root = std::sqrt(v) / std::sqrt(in.getBias2()) + in.getEpsilon();
  return {x - in.getLr() / in.getBias1() * m / root, m, v};
}

Results sgd(Numbers<nn::SgdOp> in) {
  double g = in.getGrad() + in.getParam() * in.getWeightDecay();
  double velocity = in.getVelocity() * in.getMomentum() + g;
  return {in.getParam() - in.getLr() * velocity, velocity};
}

Results lion(Numbers<nn::LionOp> in) {
  double lr = in.getLr(), m = in.getMomentum(), g = in.getGrad();
  double direction = in.getBeta1() * m + (1 - in.getBeta1()) * g;
  double x = in.getParam() - lr * in.getWeightDecay() * in.getParam();
  x -= direction > 0 ? lr : direction < 0 ? -lr : lr * direction; // a NaN stays one
  return {x, in.getBeta2() * m + (1 - in.getBeta2()) * g};
}

Results adam(Numbers<nn::AdamOp> in) {
  double beta1 = in.getBeta1(), beta2 = in.getBeta2(), lr = in.getLr();
  double regularized = in.getWeightDecay() * in.getParam() + in.getGrad();
  double m = beta1 * in.getMoment1() + (1 - beta1) * regularized;
  double v = beta2 * in.getMoment2() + (1 - beta2) * regularized * regularized;
  double adjusted = lr * std::sqrt(in.getBias2()) / in.getBias1();
  double next = in.getParam() - adjusted * m / (std::sqrt(v) + in.getEpsilon());
  return {next - (lr * in.getDecoupledDecay() + in.getShrink()) * next, m, v};
}

Results adagrad(Numbers<nn::AdagradOp> in) {
  double regularized = in.getWeightDecay() * in.getParam() + in.getGrad();
  double sum = in.getSum() + regularized * regularized;
  double rate = in.getLr() * in.getRate();
  return {in.getParam() - rate * regularized / (std::sqrt(sum) + in.getEpsilon()), sum};
}

Results momentum(Numbers<nn::MomentumOp> in) {
  double regularized = in.getWeightDecay() * in.getParam() + in.getGrad();
  double velocity = in.getMomentum() * in.getVelocity() + in.getWeight() * regularized;
  double ahead = regularized + in.getMomentum() * velocity;
  double direction = in.getNesterov() * ahead + (1 - in.getNesterov()) * velocity;
  return {in.getParam() - in.getLr() * direction, velocity};
}

Results muonStep(Numbers<nn::MuonStepOp> in) {
  double x = in.getParam(), lr = in.getLr();
  return {x - lr * in.getWeightDecay() * x - lr * in.getDirection(),
          in.getBeta() * in.getMomentum() + (1 - in.getBeta()) * in.getGrad(), in.getDirection()};
}

/// The gradient, scaled, is the new parameter.
Results assign(Numbers<nn::AssignOp> in) { return {in.getGrad()}; }

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
  if (!begin(op, call))
    return success();
  std::vector<double> scalars = scalarsOf(op, call, op.getFactorsAttr());
  Numbers<nn::MuonOp> in(scalars, op);
  double lr = in.getLr(), decay = in.getWeightDecay();
  double beta = in.getBeta(), nesterov = in.getNesterov(), match = in.getMatchRmsAdamw();
  // The constants of a program in f32 are f32, whatever its values are evaluated in.
  bool single = op.getScale().getType().getElementType().isF32();
  auto constant = [&](double exact) { return single ? double(float(exact)) : exact; };
  double *param = call.result(0).mutableFloats(), *momentum = call.result(1).mutableFloats();
  Matrix x{call.operand(0).dim(0), call.operand(0).dim(1), {}};
  double rows = x.rows, columns = x.columns, squares = 0;
  for (int64_t i = 0, e = call.operand(0).size(); i < e; ++i) {
    double g = call.operand(1).floats()[i] * in.getScale();
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
  if (!begin(op, call))
    return success();
  std::vector<double> scalars = scalarsOf(op, call, op.getFactorsAttr());
  Numbers<nn::AdafactorOp> in(scalars, op);
  double lr = in.getLr(), eps1 = in.getEpsilon1();
  auto shape = cast<RankedTensorType>(op.getParam().getType()).getShape();
  int64_t count = call.operand(0).size();
  double *param = call.result(0).mutableFloats(), *moment = call.result(1).mutableFloats();
  double size = std::sqrt(meanSquare(ArrayRef(param, count)));
  std::vector<double> g, variance(count);
  for (int64_t i = 0; i < count; ++i)
    g.push_back(call.operand(1).floats()[i] * in.getScale());
  if (count > 0 && shape.size() > 1) {
    factor(g, shape[shape.size() - 2], shape.back(), in.getWeight(), eps1, moment, variance);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      lerp(moment[i], g[i] * g[i], in.getWeight());
      variance[i] = moment[i];
    }
  }
  std::vector<double> update;
  for (int64_t i = 0; i < count; ++i)
    update.push_back(g[i] / std::sqrt(std::max(variance[i], eps1 * eps1)));
  double alpha = std::max(double(in.getEpsilon2()), size) * std::min(lr, double(in.getLimit()));
  double clip = std::max(1.0, std::sqrt(meanSquare(update)) / in.getClip());
  for (int64_t i = 0; i < count; ++i)
    param[i] = param[i] * (1 - lr * in.getWeightDecay()) - alpha / clip * update[i];
  return success();
}

LogicalResult evaluateLamb(nn::LambOp op, Call &call) {
  if (!begin(op, call))
    return success();
  std::vector<double> scalars = scalarsOf(op, call, op.getFactorsAttr());
  Numbers<nn::LambOp> in(scalars, op);
  double lr = in.getLr(), lambda = in.getWeightDecay();
  double beta1 = in.getBeta1(), beta2 = in.getBeta2();
  double *x = call.result(0).mutableFloats(), *m = call.result(1).mutableFloats(),
         *v = call.result(2).mutableFloats();
  int64_t count = call.operand(0).size();
  std::vector<double> update;
  double xs = 0, updates = 0;
  for (int64_t i = 0; i < count; ++i) {
    double g = call.operand(1).floats()[i] * in.getScale();
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    double r = (m[i] / in.getBias1()) / (std::sqrt(v[i] / in.getBias2()) + in.getEpsilon());
    update.push_back(r + lambda * x[i]);
    xs += x[i] * x[i];
    updates += update.back() * update.back();
  }
  double trust = xs == 0 || updates == 0 ? 1 : std::sqrt(xs) / std::sqrt(updates);
  for (int64_t i = 0; i < count; ++i)
    x[i] -= lr * trust * update[i];
  return success();
}

template <typename Op> LogicalResult evaluateUpdate(Op op, Call &call, Formula<Op> formula) {
  if (!begin(op, call))
    return success();
  const double *grad = call.operand(op.getGradMutable().getOperandNumber()).floats();
  SmallVector<unsigned> numbers{op.getParamMutable().getOperandNumber()}; // of the old values
  for (OpOperand *state : op.getStateOperands())
    numbers.push_back(state->getOperandNumber());
  int64_t offset = op.getOffset() ? call.operands.back().ints()[0] : 0;
  forEachSegment(op, offset, call.result(0).size(),
                 [&](int64_t begin, int64_t end, UpdateFactorsAttrInterface factors) {
                   std::vector<double> values = scalarsOf(op, call, factors);
                   Numbers<Op> in(values, op);
                   for (int64_t i = begin; i < end; ++i) {
                     for (auto [result, number] : llvm::enumerate(numbers))
                       values[number] = call.result(result).floats()[i];
                     values[op.getGradMutable().getOperandNumber()] = grad[i] * in.getScale();
                     for (auto [result, next] : llvm::enumerate(formula(in)))
                       call.result(result).mutableFloats()[i] = next;
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
  if (!begin(op, call))
    return success();
  auto numberOf = [](OpOperand &operand) { return operand.getOperandNumber(); };
  int64_t offset = op.getOffset() ? call.operands.back().ints()[0] : 0;
  double *param = call.result(0).mutableFloats();
  CodedMoment first(call.result(1).mutableInts(), true),
      second(call.result(2).mutableInts(), false);
  forEachSegment(op, offset, call.operand(0).size(),
                 [&](int64_t begin, int64_t end, UpdateFactorsAttrInterface factors) {
                   std::vector<double> values = scalarsOf(op, call, factors);
                   Numbers<nn::Adamw8bitOp> in(values, op);
                   for (int64_t at = begin; at < end; at += 256) {
                     std::vector<double> m = first.load(at / 256 * 65),
                                         v = second.load(at / 256 * 65);
                     for (int64_t i = 0; i < std::min<int64_t>(256, end - at); ++i) {
                       values[numberOf(op.getParamMutable())] = param[at + i];
                       values[numberOf(op.getGradMutable())] =
                           call.operand(1).floats()[at + i] * in.getScale();
                       values[numberOf(op.getMoment1Mutable())] = m[i];
                       values[numberOf(op.getMoment2Mutable())] = v[i];
                       Results next = adamw<nn::Adamw8bitOp>(in);
                       param[at + i] = next[0], m[i] = next[1], v[i] = next[2];
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

template <typename Op> void addUpdate(Registry &registry, Formula<Op> formula) {
  registry.add<Op>([formula](Op op, Call &call) {
    return roundParameter(cast<OptimizerUpdateOpInterface>(op.getOperation()), call,
                          evaluateUpdate(op, call, formula));
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
  addUpdate<nn::AdamwOp>(registry, adamw<nn::AdamwOp>);
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
