//===- GradientCheck.cpp - Gradients against central differences ----------===//
#include "tools/shale-run/GradientCheck.h"
#include "dialects/nn/Ops/Constant.h"
#include "lib/Analysis/InputRanges.h"
#include "lib/Interpreter/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "passes/autodiff/GradientBuilder.h"
#include "llvm/Support/Format.h"
#include <chrono>
#include <cmath>

using namespace mlir;
using namespace shale::interp;

namespace shale {

namespace {

/// Step h of the central differences: balances the truncation error, of order h^2,
/// and the rounding error, of order 1e-16 / h.
constexpr double kStep = 6e-6;

class Checker {
public:
  Checker(func::FuncOp function, const GradientCheckOptions &options, raw_ostream &report)
      : function(function), options(options), report(report) {}

  LogicalResult check();

private:
  LogicalResult makeArguments();
  LogicalResult makeGradientFunction();
  FailureOr<std::vector<Tensor>> run(func::FuncOp f, std::vector<Tensor> args);
  FailureOr<double> projected();
  LogicalResult checkArgument(unsigned i, const Tensor &gradient);
  void reportProgress(unsigned argument, int64_t element, int64_t elements);

  func::FuncOp function;
  const GradientCheckOptions &options;
  raw_ostream &report;
  std::vector<Tensor> arguments;
  std::vector<Tensor> weights; // r_i; empty for results that are not floats
  SmallVector<unsigned> wanted;
  OwningOpRef<func::FuncOp> gradients;

  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now(), reported = start;
  int64_t checked = 0, total = 0; // elements
};

/// Returns a random tensor. Differences need values near 0 that are not tiny; labels
/// and indices are bounded by the size of the dimension that they index.
Tensor randomOf(RankedTensorType type, std::string name, uint64_t seed,
                const std::optional<IndexRange> &range) {
  ValueSpec spec;
  spec.name = std::move(name);
  spec.element = *elementOf(type.getElementType());
  spec.shape.assign(type.getShape().begin(), type.getShape().end());
  spec.setRange(range);
  return randomValue(spec, seed);
}

} // namespace

LogicalResult Checker::makeArguments() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("is not a function with one block");
  auto usable = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && elementOf(tensor.getElementType()) &&
           nn::tensorBytes(tensor) >= 0 && nn::tensorBytes(tensor) <= (1 << 20);
  };
  std::vector<std::optional<IndexRange>> ranges = inputRanges(function);
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (!usable(type))
      return function.emitError("argument ")
             << i << " of type " << type << " is not a static tensor of at most 1 MiB";
    arguments.push_back(
        randomOf(cast<RankedTensorType>(type), "arg" + std::to_string(i), options.seed, ranges[i]));
    if (arguments.back().isFloat() && !function.getArgAttr(i, nn::kRoleAttr))
      wanted.push_back(i);
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    if (!usable(type))
      return function.emitError("result ")
             << i << " of type " << type << " is not a static tensor of at most 1 MiB";
    Tensor weight =
        randomOf(cast<RankedTensorType>(type), "weight" + std::to_string(i), options.seed, {});
    weights.push_back(weight.isFloat() ? weight : Tensor());
  }
  if (wanted.empty())
    return function.emitError("has no float argument");
  return success();
}

LogicalResult Checker::makeGradientFunction() {
  gradients = cast<func::FuncOp>(function->clone());
  Block &body = gradients->getBody().front();
  Operation *terminator = body.getTerminator();
  OpBuilder builder(terminator);
  SmallVector<Value> values;
  for (unsigned i : wanted)
    values.push_back(body.getArgument(i));
  GradientBuilder gradient(builder, body, values);
  SmallVector<Value> results(terminator->getOperands());
  for (auto [value, weight] : llvm::zip(results, weights)) {
    if (!weight)
      continue;
    auto constant = nn::ConstantOp::create(builder, value.getLoc(),
                                           cast<ElementsAttr>(weight.toAttr(builder.getContext())));
    gradient.accumulate(value, constant);
  }
  if (failed(gradient.run()))
    return failure();
  SmallVector<Value> outputs;
  for (Value value : values) {
    Value result = gradient.gradient(value);
    outputs.push_back(
        result ? result
               : nn::splat(builder, value.getLoc(), cast<RankedTensorType>(value.getType()), 0));
  }
  terminator->setOperands(outputs);
  gradients->setFunctionType(
      builder.getFunctionType(gradients->getArgumentTypes(), terminator->getOperandTypes()));
  gradients->removeResAttrsAttr();
  gradients->removeArgAttrsAttr(); // they may name symbols of the module
  return verify(*gradients);
}

FailureOr<std::vector<Tensor>> Checker::run(func::FuncOp f, std::vector<Tensor> args) {
  Options settings;
  settings.asF64 = true;
  auto results = Interpreter(settings).run(f, RankValues{std::move(args)});
  if (failed(results))
    return failure();
  return std::move(results->front());
}

FailureOr<double> Checker::projected() {
  auto results = run(function, arguments);
  if (failed(results))
    return failure();
  double sum = 0;
  for (auto [result, weight] : llvm::zip(*results, weights))
    for (int64_t i = 0; weight && i < result.size(); ++i)
      sum += result.floats()[i] * weight.floats()[i];
  return sum;
}

/// Two runs of the function for each element take minutes for a model: says how far they are every
/// `options.progress` seconds.
void Checker::reportProgress(unsigned argument, int64_t element, int64_t elements) {
  auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  Clock::time_point now = Clock::now();
  if (seconds(now - reported) < options.progress)
    return;
  reported = now;
  double past = seconds(now - start);
  llvm::errs() << "shale-run: @" << function.getSymName() << " argument " << argument << ": "
               << element << " of " << elements << " elements; " << checked << " of " << total
               << " of all arguments"
               << llvm::format(", %.0f s, about %.0f s left\n", past,
                               past * (total - checked) / checked);
}

LogicalResult Checker::checkArgument(unsigned i, const Tensor &gradient) {
  double worst = 0;
  for (int64_t k = 0; k < gradient.size(); ++k) {
    double value = arguments[i].floats()[k];
    arguments[i].mutableFloats()[k] = value + kStep;
    auto above = projected();
    arguments[i].mutableFloats()[k] = value - kStep;
    auto below = projected();
    arguments[i].mutableFloats()[k] = value;
    if (failed(above) || failed(below))
      return failure();
    double expected = (*above - *below) / (2 * kStep);
    double got = gradient.floats()[k];
    double error = std::fabs(got - expected) / std::max(1.0, std::fabs(expected));
    if (!(error <= options.tolerance))
      return function.emitError("gradient of argument ")
             << i << ", element " << k << ": " << std::to_string(got) << ", central difference "
             << std::to_string(expected);
    worst = std::max(worst, error);
    ++checked;
    reportProgress(i, k + 1, gradient.size());
  }
  report << "@" << function.getSymName() << " argument " << i << ": " << gradient.size()
         << " elements, largest error " << llvm::format("%.1e", worst) << "\n";
  return success();
}

LogicalResult Checker::check() {
  if (failed(makeArguments()) || failed(makeGradientFunction()))
    return failure();
  auto results = run(*gradients, arguments);
  if (failed(results))
    return failure();
  for (const Tensor &gradient : *results)
    total += gradient.size();
  start = reported = Clock::now();
  LogicalResult result = success();
  for (auto [i, gradient] : llvm::zip(wanted, *results))
    if (failed(checkArgument(i, gradient)))
      result = failure();
  return result;
}

LogicalResult checkGradients(func::FuncOp function, const GradientCheckOptions &options,
                             raw_ostream &report) {
  return Checker(function, options, report).check();
}

} // namespace shale
