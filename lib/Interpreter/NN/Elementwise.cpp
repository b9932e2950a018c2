//===- Elementwise.cpp - Elementwise ops ----------------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Gelu.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include "llvm/ADT/bit.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// Marks an op that does not support integers (its types exclude them).
struct NoInt {};

template <typename OpT, typename FloatFn, typename IntFn = NoInt>
void unary(Registry &registry, FloatFn onFloat, IntFn onInt = {}) {
  registry.add<OpT>([=](OpT, Call &call) -> LogicalResult {
    const Tensor &input = call.operand(0);
    Tensor &result = call.result();
    if (result.isFloat()) {
      const double *x = input.floats();
      double *y = result.mutableFloats();
      for (int64_t i = 0, e = result.size(); i < e; ++i)
        y[i] = onFloat(x[i]);
      return success();
    }
    if constexpr (!std::is_same_v<IntFn, NoInt>) {
      const int64_t *x = input.ints();
      int64_t *y = result.mutableInts();
      for (int64_t i = 0, e = result.size(); i < e; ++i)
        y[i] = onInt(x[i]);
    }
    return success();
  });
}

template <typename OpT, typename FloatFn, typename IntFn = NoInt>
void binary(Registry &registry, FloatFn onFloat, IntFn onInt = {}) {
  registry.add<OpT>([=](OpT, Call &call) -> LogicalResult {
    const Tensor &lhs = call.operand(0), &rhs = call.operand(1);
    Tensor &result = call.result();
    if (result.isFloat()) {
      const double *a = lhs.floats(), *b = rhs.floats();
      double *y = result.mutableFloats();
      for (int64_t i = 0, e = result.size(); i < e; ++i)
        y[i] = onFloat(a[i], b[i]);
      return success();
    }
    if constexpr (!std::is_same_v<IntFn, NoInt>) {
      const int64_t *a = lhs.ints(), *b = rhs.ints();
      int64_t *y = result.mutableInts();
      for (int64_t i = 0, e = result.size(); i < e; ++i)
        y[i] = onInt(a[i], b[i]);
    }
    return success();
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double geluErf(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }

double geluTanh(double x) {
  double inner = nn::kGeluTanhScale * (x + nn::kGeluTanhCubic * x * x * x);
  return x * (1 + std::tanh(inner)) / 2;
}

template <typename T> bool holds(nn::Predicate predicate, T a, T b) {
  switch (predicate) {
  case nn::Predicate::EQ:
    return a == b;
  case nn::Predicate::NE:
    return a != b;
  case nn::Predicate::LT:
    return a < b;
  case nn::Predicate::LE:
    return a <= b;
  case nn::Predicate::GT:
    return a > b;
  case nn::Predicate::GE:
    return a >= b;
  }
  return false;
}

LogicalResult evaluateCompare(nn::CompareOp op, Call &call) {
  const Tensor &lhs = call.operand(0), &rhs = call.operand(1);
  int64_t *y = call.result().mutableInts();
  for (int64_t i = 0, e = lhs.size(); i < e; ++i)
    y[i] = lhs.isFloat() ? holds(op.getPredicate(), lhs.floats()[i], rhs.floats()[i])
                         : holds(op.getPredicate(), lhs.ints()[i], rhs.ints()[i]);
  return success();
}

LogicalResult evaluateSelect(nn::SelectOp, Call &call) {
  const int64_t *condition = call.operand(0).ints();
  const Cell *a = call.operand(1).cells(), *b = call.operand(2).cells();
  Cell *y = call.result().mutableCells();
  for (int64_t i = 0, e = call.result().size(); i < e; ++i)
    y[i] = condition[i] ? a[i] : b[i];
  return success();
}

int64_t floatToInt(double x, double low, double high, int64_t lowest, int64_t highest) {
  if (std::isnan(x))
    return 0;
  if (x <= low)
    return lowest;
  if (x >= high)
    return highest;
  return static_cast<int64_t>(x);
}

LogicalResult evaluateCast(nn::CastOp, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &result = call.result();
  int64_t size = result.size();
  if (result.isFloat()) {
    double *y = result.mutableFloats();
    for (int64_t i = 0; i < size; ++i)
      y[i] = input.number(i);
    return success();
  }
  int64_t *y = result.mutableInts();
  if (!input.isFloat()) {
    std::copy_n(input.ints(), size, y); // wraps when the interpreter rounds the result
    return success();
  }
  const double *x = input.floats();
  for (int64_t i = 0; i < size; ++i) {
    if (result.element() == Element::I1)
      y[i] = x[i] != 0;
    else if (result.element() == Element::I32)
      y[i] = floatToInt(x[i], INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX);
    else
      y[i] = floatToInt(x[i], -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
  }
  return success();
}

LogicalResult evaluateBitcast(nn::BitcastOp, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &result = call.result();
  for (int64_t i = 0, e = result.size(); i < e; ++i)
    if (input.isFloat())
      result.mutableInts()[i] = llvm::bit_cast<int32_t>(static_cast<float>(input.floats()[i]));
    else
      result.mutableFloats()[i] = llvm::bit_cast<float>(static_cast<int32_t>(input.ints()[i]));
  return success();
}

} // namespace

// Integer arithmetic wraps, so it is done on unsigned integers.
static int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

static void registerArithmetic(Registry &registry) {
  binary<nn::AddOp>(
      registry, [](double a, double b) { return a + b; },
      [](uint64_t a, uint64_t b) { return wrap(a + b); });
  binary<nn::SubOp>(
      registry, [](double a, double b) { return a - b; },
      [](uint64_t a, uint64_t b) { return wrap(a - b); });
  binary<nn::MulOp>(
      registry, [](double a, double b) { return a * b; },
      [](uint64_t a, uint64_t b) { return wrap(a * b); });
  binary<nn::DivOp>(
      registry, [](double a, double b) { return a / b; },
      [](int64_t a, int64_t b) { return b == 0    ? 0
                                        : b == -1 ? wrap(-uint64_t(a))
                                                  : a / b; });
  binary<nn::RemOp>(
      registry, [](double a, double b) { return std::fmod(a, b); },
      [](int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; });
  binary<nn::MaxOp>(
      registry,
      [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); },
      [](int64_t a, int64_t b) { return std::max(a, b); });
  binary<nn::MinOp>(
      registry,
      [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); },
      [](int64_t a, int64_t b) { return std::min(a, b); });
  binary<nn::PowOp>(registry, [](double a, double b) { return std::pow(a, b); });
  binary<nn::XLogYOp>(registry, [](double a, double b) {
    return a == 0 && !std::isnan(b) ? 0.0 : a * std::log(b);
  });
  auto noFloat = [](double, double) { return 0.0; };
  binary<nn::AndOp>(registry, noFloat, [](int64_t a, int64_t b) { return a & b; });
  binary<nn::OrOp>(registry, noFloat, [](int64_t a, int64_t b) { return a | b; });
  binary<nn::XorOp>(registry, noFloat, [](int64_t a, int64_t b) { return a ^ b; });
}

/// exp(x^2) erfc(x). For large x, Laplace's continued fraction (DLMF 7.9.1).
static double erfcx(double x) {
  constexpr double most = 5, rootOfPi = 1.77245385090551602730;
  if (!(x > most))
    return std::exp(x * x) * std::erfc(x);
  double rest = x;
  for (int k = 100; k > 0; --k)
    rest = x + k / (2 * rest);
  return 1 / (rootOfPi * rest);
}

static void registerFunctionsOfOne(Registry &registry) {
  unary<nn::NotOp>(registry, [](double x) { return x; }, [](int64_t x) -> int64_t { return !x; });
  unary<nn::NegOp>(registry, [](double x) { return -x; }, [](uint64_t x) { return wrap(-x); });
  unary<nn::AbsOp>(
      registry, [](double x) { return std::fabs(x); },
      [](int64_t x) { return x < 0 ? wrap(-uint64_t(x)) : x; });
  unary<nn::SignOp>(
      registry, [](double x) { return std::isnan(x) ? x : double(x > 0) - (x < 0); },
      [](int64_t x) -> int64_t { return (x > 0) - (x < 0); });
  unary<nn::StopGradientOp>(registry, [](double x) { return x; });
  unary<nn::FloorOp>(registry, [](double x) { return std::floor(x); });
  unary<nn::CeilOp>(registry, [](double x) { return std::ceil(x); });
  unary<nn::ExpOp>(registry, [](double x) { return std::exp(x); });
  unary<nn::Expm1Op>(registry, [](double x) { return std::expm1(x); });
  unary<nn::LogOp>(registry, [](double x) { return std::log(x); });
  unary<nn::Log1pOp>(registry, [](double x) { return std::log1p(x); });
  unary<nn::SqrtOp>(registry, [](double x) { return std::sqrt(x); });
  unary<nn::RsqrtOp>(registry, [](double x) { return 1 / std::sqrt(x); });
  unary<nn::TanhOp>(registry, [](double x) { return std::tanh(x); });
  unary<nn::ErfOp>(registry, [](double x) { return std::erf(x); });
  unary<nn::ErfcOp>(registry, [](double x) { return std::erfc(x); });
  unary<nn::ErfcxOp>(registry, erfcx);
  unary<nn::SigmoidOp>(registry, sigmoid);
  unary<nn::SinOp>(registry, [](double x) { return std::sin(x); });
  unary<nn::CosOp>(registry, [](double x) { return std::cos(x); });
  unary<nn::SiluOp>(registry, [](double x) { return x * sigmoid(x); });
  registry.add<nn::GeluOp>([](nn::GeluOp op, Call &call) -> LogicalResult {
    auto *fn = op.getApproximate() ? geluTanh : geluErf;
    const double *x = call.operand(0).floats();
    double *y = call.result().mutableFloats();
    for (int64_t i = 0, e = call.result().size(); i < e; ++i)
      y[i] = fn(x[i]);
    return success();
  });
  registry.add<nn::IsNanOp>([](nn::IsNanOp, Call &call) -> LogicalResult {
    const double *x = call.operand(0).floats();
    int64_t *y = call.result().mutableInts();
    for (int64_t i = 0, e = call.result().size(); i < e; ++i)
      y[i] = std::isnan(x[i]);
    return success();
  });
}

void registerElementwise(Registry &registry) {
  registerArithmetic(registry);
  registerFunctionsOfOne(registry);
  registry.add<nn::CompareOp>(evaluateCompare);
  registry.add<nn::SelectOp>(evaluateSelect);
  registry.add<nn::CastOp>(evaluateCast);
  registry.add<nn::BitcastOp>(evaluateBitcast);
}

} // namespace shale::interp
