//===- Random.cpp - Operators that draw random numbers --------------------===//
//
// The numbers are Shale's own, by the seed of a run: other numbers than PyTorch's, of the same
// distribution.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The arguments from which random ops draw, and then no offset.
static std::array<Value, 3> drawnFrom(Node &node) {
  Value seed = node.building.randomArgument(nn::Role::Seed);
  Value step = node.building.randomArgument(nn::Role::Step);
  return {seed, step, node.building.randomArgument(nn::Role::Microbatch)};
}

/// Draws from [0, 1).
static Tensor uniform(Node &node, RankedTensorType type) {
  auto [seed, step, microbatch] = drawnFrom(node);
  return node.create<nn::UniformOp>(type, seed, step, microbatch, /*offset=*/Tensor(),
                                    node.building.context.takeRandomId(),
                                    /*global_shape=*/DenseI64ArrayAttr());
}

/// Returns factor * x + offset.
static Tensor line(Tensor x, double factor, double offset) {
  return offset != 0 ? scaled(x, factor) + offset : scaled(x, factor);
}

/// Draws from the standard normal distribution: sqrt(-2 ln u) cos(2 pi v) for uniform u in (0, 1]
/// and v (Box and Muller, A Note on the Generation of Random Normal Deviates, 1958).
static Tensor normal(Node &node, RankedTensorType type) {
  Tensor u = line(uniform(node, type), -1, 1);
  Tensor radius = sqrt(scaled(log(u), -2));
  return radius * cos(scaled(uniform(node, type), 2 * M_PI));
}

/// Returns the element type that attribute `dtype` names, `missing` without it or for 0
/// (undefined); null after an error. Refuses a seed: numbers are drawn by the seed of the run.
static Type resultElement(Node &node, Type missing) {
  if (node.attribute("seed"))
    return node.error("a seed in the file is not supported: --seed of the program decides");
  return node.intAttr("dtype", 0) == 0 ? missing : node.typeAttr("dtype", missing);
}

/// Whether a number is finite in a type.
static bool isFiniteIn(double number, const llvm::fltSemantics &semantics) {
  APFloat value(number);
  bool inexact;
  value.convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
  return value.isFinite();
}

template <bool isNormal, bool isLike> static Tensor importRandom(Node &node) {
  std::optional<Sizes> given = isLike ? Sizes(node.input(0).shape()) : node.intsAttr("shape");
  Type f32 = node.builder.getF32Type(), missing = isLike ? node.input(0).element() : f32;
  if (!given)
    return node.error("attribute 'shape' is missing");
  if (llvm::any_of(*given, [](int64_t size) { return size < 0; }))
    return node.error("attribute 'shape' must not be negative");
  auto element = dyn_cast_or_null<FloatType>(resultElement(node, missing));
  if (!element)
    return node.error("draws floats only");
  const char *first = isNormal ? "mean" : "low", *second = isNormal ? "scale" : "high";
  double a = node.floatAttr(first, 0), b = node.floatAttr(second, 1);
  if (!std::isfinite(a) || !std::isfinite(b))
    return node.error("{} and {} must be finite", first, second);
  if (isNormal ? b < 0 : b < a)
    return node.error(isNormal ? "scale must not be negative" : "high must not be below low");
  const llvm::fltSemantics &own = element.getFloatSemantics();
  if (!isNormal &&
      (!isFiniteIn(b - a, APFloat::IEEEsingle()) || !isFiniteIn(a, own) || !isFiniteIn(b, own)))
    return node.error("low, high and their difference must be finite in {} and in f32", element);
  auto type = RankedTensorType::get(*given, f32);
  return (isNormal ? line(normal(node, type), b, a) : line(uniform(node, type), b - a, a))
      .cast(element);
}

/// 1 with the probability that the operand has, else 0. No gradient reaches the probability.
static Tensor importBernoulli(Node &node, Tensor x) {
  Type element = resultElement(node, x.element()), f32 = node.builder.getF32Type();
  if (!element)
    return {};
  Tensor drawn = uniform(node, x.type().clone(f32));
  return (drawn < x.cast(f32)).cast(element);
}

/// Builds a dropout that draws by seed, step, micro-batch and `id`.
static Tensor dropAs(Node &node, Tensor x, double ratio, int64_t id) {
  auto [seed, step, microbatch] = drawnFrom(node);
  if (!x.hasFloats())
    return node.error("dropout of {}", x);
  return node.create<nn::DropoutOp>(x.getType(), x, seed, step, microbatch, /*offset=*/Tensor(),
                                    APFloat(ratio), id, /*global_shape=*/DenseI64ArrayAttr());
}

Tensor onnx::dropped(Node &node, Tensor x, double ratio) {
  return dropAs(node, x, ratio, node.building.context.takeRandomId());
}

/// The mask is where the dropout of ones keeps them.
static LogicalResult importTrainingDropout(Node &node, Tensor x, double ratio) {
  int64_t id = node.building.context.takeRandomId();
  node.set(0, dropAs(node, x, ratio, id));
  if (node.wants(1)) {
    Tensor one = x.like(1), zero = x.like(0);
    node.set(1, differ(dropAs(node, one, ratio, id), zero));
  }
  return success();
}

/// A Dropout without training_mode returns its operand. In a file of PyTorch it drops elements: it
/// is the dropout of an attention (Lost.cpp).
static LogicalResult importDropout(Node &node, Tensor x) {
  bool training = node.numInputs() == 2 && node.isFromPyTorch();
  if (node.has(2)) {
    std::optional<double> mode = node.scalarConstant(node.input(2));
    training = !mode || *mode != 0;
  }
  std::optional<double> ratio = node.building.context.options.dropout;
  if (!ratio)
    ratio = node.has(1) ? node.scalarConstant(node.input(1)) : std::optional<double>(0.5);
  if (training && (!ratio || !(*ratio >= 0 && *ratio < 1)))
    return node.error("the ratio of dropout in training mode must be known at compile time, and "
                      "from 0 to below 1");
  if (training && *ratio != 0)
    return importTrainingDropout(node, x, *ratio);
  node.set(0, x);
  if (node.wants(1))
    node.set(1, node.constant(x.type().clone(node.builder.getI1Type()), 1));
  return success();
}

void onnx::registerRandomOps(HandlerRegistry &r) {
  r.add("", "Dropout", 7, importDropout, needs(1));
  r.add("", "RandomUniform", 1, importRandom<false, false>, {});
  r.add("", "RandomUniformLike", 1, importRandom<false, true>, needs(1));
  r.add("", "RandomNormal", 1, importRandom<true, false>, {});
  r.add("", "RandomNormalLike", 1, importRandom<true, true>, needs(1));
  r.add("", "Bernoulli", 15, importBernoulli, floats(1));
}
