//===- Elementwise.cpp - Ops on one element of each operand ---------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Gelu.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Folding/Evaluators.h"
#include "lib/Folding/Numbers.h"
#include "lib/Folding/StridedRows.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace shale::folding {

namespace {

using Operands = ArrayRef<TypedBuffer>;
using Result = std::optional<TypedBuffer>;

/// Elements that are computed at once, which stay in the cache.
constexpr int64_t kChunk = 512;

/// Returns the shape of operands with size 1 along dimensions in which none of them changes.
SmallVector<int64_t> distinctShape(Operands operands) {
  SmallVector<int64_t> shape(operands.front().shape());
  for (auto [d, size] : llvm::enumerate(shape))
    if (size > 1 &&
        llvm::all_of(operands, [d = d](const TypedBuffer &each) { return !each.strides()[d]; }))
      size = 1;
  return shape;
}

template <typename From, typename Fn>
auto applyAt(Fn fn, const std::array<std::array<From, kChunk>, 1> &in, int64_t i) {
  return fn(in[0][i]);
}
template <typename From, typename Fn>
auto applyAt(Fn fn, const std::array<std::array<From, kChunk>, 2> &in, int64_t i) {
  return fn(in[0][i], in[1][i]);
}

/// Computes fn of the elements of N operands, taken as `From` (double or int64_t), and stores them
/// as `To`.
template <size_t N, typename From, typename To, typename Fn>
Result mapElements(Operation *op, Operands operands, Fn fn) {
  ElementKind from = operands.front().kind(), to = *kindOf(resultType(op).getElementType());
  SmallVector<int64_t> shape = distinctShape(operands);
  Result result = TypedBuffer::allocate(to, shape);
  if (!result)
    return std::nullopt;
  std::array<ArrayRef<int64_t>, N> strides;
  for (size_t k = 0; k < N; ++k)
    strides[k] = operands[k].strides();
  std::array<std::array<From, kChunk>, N> in;
  std::array<To, kChunk> out;
  char *next = result->mutableData(); // the result is row-major, as the order of rows
  StridedRows<N>(shape, strides)
      .forEach([&](const auto &offsets, const auto &steps, int64_t count) {
        for (int64_t begin = 0; begin < count; begin += kChunk) {
          int64_t size = std::min(kChunk, count - begin);
          for (size_t k = 0; k < N; ++k)
            readNumbers(from, operands[k].data() + (offsets[k] + begin * steps[k]) * widthOf(from),
                        steps[k], size, in[k].data());
          for (int64_t i = 0; i < size; ++i)
            out[i] = To(applyAt(fn, in, i));
          writeNumbers(to, out.data(), size, next);
          next += size * widthOf(to);
        }
      });
  return result->repeated(operands.front().shape());
}

/// Marks an op that has no integers, by its types.
struct NoIntegers {};
/// Marks an op that has no floats.
struct NoFloats {};

/// Adds an op whose operands and result have one type.
template <size_t N, typename OpT, typename FloatFn, typename IntegerFn = NoIntegers>
void add(Evaluators &evaluators, FloatFn onFloats, IntegerFn onIntegers = {}) {
  evaluators.add<OpT>([=](OpT op, Operands operands) -> Result {
    if (isFloat(operands.front().kind())) {
      if constexpr (!std::is_same_v<FloatFn, NoFloats>)
        return mapElements<N, double, double>(op, operands, onFloats);
    } else if constexpr (!std::is_same_v<IntegerFn, NoIntegers>) {
      return mapElements<N, int64_t, int64_t>(op, operands, onIntegers);
    }
    return std::nullopt;
  });
}

template <typename OpT, typename FloatFn, typename IntegerFn = NoIntegers>
void addUnary(Evaluators &evaluators, FloatFn onFloats, IntegerFn onIntegers = {}) {
  add<1, OpT>(evaluators, onFloats, onIntegers);
}

template <typename OpT, typename FloatFn, typename IntegerFn = NoIntegers>
void addBinary(Evaluators &evaluators, FloatFn onFloats, IntegerFn onIntegers = {}) {
  add<2, OpT>(evaluators, onFloats, onIntegers);
}

//===- Arithmetic ---------------------------------------------------------===//

/// The value of integer arithmetic modulo 2^64.
int64_t modulo(uint64_t value) { return static_cast<int64_t>(value); }

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  return b == -1 ? modulo(0 - uint64_t(a)) : a / b; // -2^63 / -1 wraps
}

int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/// Returns NaN if one of the numbers is.
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a < b ? b : a;
}

double smaller(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return b < a ? b : a;
}

double timesLog(double a, double b) { return a == 0 && !std::isnan(b) ? 0 : a * std::log(b); }

void addArithmetic(Evaluators &evaluators) {
  addBinary<nn::AddOp>(
      evaluators, [](double a, double b) { return a + b; },
      [](uint64_t a, uint64_t b) { return modulo(a + b); });
  addBinary<nn::SubOp>(
      evaluators, [](double a, double b) { return a - b; },
      [](uint64_t a, uint64_t b) { return modulo(a - b); });
  addBinary<nn::MulOp>(
      evaluators, [](double a, double b) { return a * b; },
      [](uint64_t a, uint64_t b) { return modulo(a * b); });
  addBinary<nn::DivOp>(evaluators, [](double a, double b) { return a / b; }, quotient);
  addBinary<nn::RemOp>(evaluators, [](double a, double b) { return std::fmod(a, b); }, remainder);
  addBinary<nn::MaxOp>(evaluators, larger, [](int64_t a, int64_t b) { return a < b ? b : a; });
  addBinary<nn::MinOp>(evaluators, smaller, [](int64_t a, int64_t b) { return b < a ? b : a; });
  addBinary<nn::PowOp>(evaluators, [](double a, double b) { return std::pow(a, b); });
  addBinary<nn::XLogYOp>(evaluators, timesLog);
  addBinary<nn::AndOp>(evaluators, NoFloats(), [](int64_t a, int64_t b) { return a & b; });
  addBinary<nn::OrOp>(evaluators, NoFloats(), [](int64_t a, int64_t b) { return a | b; });
  addBinary<nn::XorOp>(evaluators, NoFloats(), [](int64_t a, int64_t b) { return a ^ b; });
}

//===- Functions of one number --------------------------------------------===//

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

double signOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : std::isnan(x) ? x : 0; }

/// exp(x^2) erfc(x). From 5 on, where the factors leave the range of doubles, the continued
/// fraction of Laplace (DLMF 7.9.1).
double scaledErfc(double x) {
  constexpr double kFraction = 5, kRootOfPi = 1.77245385090551602730;
  constexpr int kTerms = 100;
  if (!(x > kFraction))
    return std::exp(x * x) * std::erfc(x);
  double denominator = x;
  for (int term = kTerms; term > 0; --term)
    denominator = x + term / (2 * denominator);
  return 1 / (kRootOfPi * denominator);
}

Result foldGelu(nn::GeluOp op, Operands operands) {
  if (op.getApproximate())
    return mapElements<1, double, double>(op, operands, [](double x) {
      return x * (1 + std::tanh(nn::kGeluTanhScale * (x + nn::kGeluTanhCubic * x * x * x))) / 2;
    });
  return mapElements<1, double, double>(
      op, operands, [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; });
}

void addFunctions(Evaluators &evaluators) {
  addUnary<nn::NotOp>(evaluators, NoFloats(), [](int64_t x) { return int64_t(x == 0); });
  addUnary<nn::NegOp>(
      evaluators, [](double x) { return -x; }, [](uint64_t x) { return modulo(0 - x); });
  addUnary<nn::AbsOp>(
      evaluators, [](double x) { return std::fabs(x); },
      [](int64_t x) { return x < 0 ? modulo(0 - uint64_t(x)) : x; });
  addUnary<nn::SignOp>(evaluators, signOf,
                       [](int64_t x) { return int64_t(x > 0) - int64_t(x < 0); });
  addUnary<nn::StopGradientOp>(evaluators, [](double x) { return x; });
  addUnary<nn::FloorOp>(evaluators, [](double x) { return std::floor(x); });
  addUnary<nn::CeilOp>(evaluators, [](double x) { return std::ceil(x); });
  addUnary<nn::ExpOp>(evaluators, [](double x) { return std::exp(x); });
  addUnary<nn::Expm1Op>(evaluators, [](double x) { return std::expm1(x); });
  addUnary<nn::LogOp>(evaluators, [](double x) { return std::log(x); });
  addUnary<nn::Log1pOp>(evaluators, [](double x) { return std::log1p(x); });
  addUnary<nn::SqrtOp>(evaluators, [](double x) { return std::sqrt(x); });
  addUnary<nn::RsqrtOp>(evaluators, [](double x) { return 1 / std::sqrt(x); });
  addUnary<nn::TanhOp>(evaluators, [](double x) { return std::tanh(x); });
  addUnary<nn::ErfOp>(evaluators, [](double x) { return std::erf(x); });
  addUnary<nn::ErfcOp>(evaluators, [](double x) { return std::erfc(x); });
  addUnary<nn::ErfcxOp>(evaluators, scaledErfc);
  addUnary<nn::SigmoidOp>(evaluators, logistic);
  addUnary<nn::SinOp>(evaluators, [](double x) { return std::sin(x); });
  addUnary<nn::CosOp>(evaluators, [](double x) { return std::cos(x); });
  addUnary<nn::SiluOp>(evaluators, [](double x) { return x * logistic(x); });
  evaluators.add<nn::GeluOp>(foldGelu);
  evaluators.add<nn::IsNanOp>([](nn::IsNanOp op, Operands operands) {
    return mapElements<1, double, int64_t>(op, operands, [](double x) { return std::isnan(x); });
  });
}

//===- Comparisons, choices and conversions -------------------------------===//

template <typename Number> Result compareAs(nn::CompareOp op, Operands operands) {
  auto with = [&](auto holds) { return mapElements<2, Number, int64_t>(op, operands, holds); };
  switch (op.getPredicate()) {
  case nn::Predicate::EQ:
    return with([](Number a, Number b) { return a == b; });
  case nn::Predicate::NE:
    return with([](Number a, Number b) { return a != b; });
  case nn::Predicate::LT:
    return with([](Number a, Number b) { return a < b; });
  case nn::Predicate::LE:
    return with([](Number a, Number b) { return a <= b; });
  case nn::Predicate::GT:
    return with([](Number a, Number b) { return a > b; });
  case nn::Predicate::GE:
    return with([](Number a, Number b) { return a >= b; });
  }
  return std::nullopt;
}

Result foldCompare(nn::CompareOp op, Operands operands) {
  return isFloat(operands.front().kind()) ? compareAs<double>(op, operands)
                                          : compareAs<int64_t>(op, operands);
}

/// `Cell`: an unsigned integer of the elements' width.
template <typename Cell> void selectCells(ArrayRef<int64_t> shape, Operands operands, char *next) {
  StridedRows<3>(shape, {operands[0].strides(), operands[1].strides(), operands[2].strides()})
      .forEach([&](const auto &offsets, const auto &steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i, next += sizeof(Cell)) {
          int which = operands[0].data()[offsets[0] + i * steps[0]] ? 1 : 2;
          int64_t element = offsets[which] + i * steps[which];
          std::memcpy(next, operands[which].data() + element * int64_t(sizeof(Cell)), sizeof(Cell));
        }
      });
}

Result foldSelect(nn::SelectOp op, Operands operands) {
  SmallVector<int64_t> shape = distinctShape(operands);
  Result result = TypedBuffer::allocate(operands[1].kind(), shape);
  if (!result)
    return std::nullopt;
  int64_t width = widthOf(result->kind());
  auto *select = width == 8   ? selectCells<uint64_t>
                 : width == 4 ? selectCells<uint32_t>
                 : width == 2 ? selectCells<uint16_t>
                              : selectCells<uint8_t>;
  select(shape, operands, result->mutableData());
  return result->repeated(operands[0].shape());
}

Result foldCast(nn::CastOp op, Operands operands) {
  ElementKind to = *kindOf(resultType(op).getElementType());
  if (!isFloat(operands.front().kind()))
    return isFloat(to)
               ? mapElements<1, int64_t, double>(op, operands, [](int64_t x) { return double(x); })
               : mapElements<1, int64_t, int64_t>(op, operands, [](int64_t x) { return x; });
  return isFloat(to) ? mapElements<1, double, double>(op, operands, [](double x) { return x; })
                     : mapElements<1, double, int64_t>(op, operands,
                                                       [to](double x) { return toInteger(to, x); });
}

} // namespace

void addElementwise(Evaluators &evaluators) {
  addArithmetic(evaluators);
  addFunctions(evaluators);
  evaluators.add<nn::CompareOp>(foldCompare);
  evaluators.add<nn::SelectOp>(foldSelect);
  evaluators.add<nn::CastOp>(foldCast);
}

} // namespace shale::folding
