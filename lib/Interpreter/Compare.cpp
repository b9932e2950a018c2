//===- Compare.cpp - Two programs on the same values ----------------------===//
#include "lib/Interpreter/Compare.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace shale::interp {

namespace {

struct Difference {
  bool shapes = false; // types differ; nothing else is set
  double relative = 0; // largest difference over the largest element
  int64_t at = -1;     // element of the largest difference; -1: none differs
};

Difference difference(const Tensor &a, const Tensor &b) {
  Difference result;
  if (a.shape() != b.shape() || (a.element() != b.element() && !(a.isFloat() && b.isFloat()))) {
    result.shapes = true;
    return result;
  }
  double largest = 0, worst = -1;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a.number(i)))
      largest = std::max(largest, std::fabs(a.number(i)));
    if (a.cells()[i] == b.cells()[i] || a.number(i) == b.number(i))
      continue;
    double by = std::fabs(a.number(i) - b.number(i));
    if (std::isnan(by)) // one is, or both with other bits
      by = std::isnan(a.number(i)) && std::isnan(b.number(i)) ? 0 : INFINITY;
    if (by > worst) {
      worst = by;
      result.at = i;
    }
  }
  if (result.at >= 0)
    result.relative = worst == 0 ? 0 : worst / largest;
  return result;
}

bool isDifferent(const Tensor &a, const Tensor &b, const Difference &d,
                 const CompareOptions &options) {
  if (d.shapes)
    return true;
  if (options.exact)
    return a.element() != b.element() || std::memcmp(a.cells(), b.cells(), a.size() * 8) != 0;
  return !(d.relative <= options.tolerance);
}

FailureOr<NamedTensors> runAll(ModuleOp module, const CompareOptions &options,
                               LogicalValues &inputs) {
  NamedTensors all;
  for (const std::string &name : getAdapter(module).functions(module)) {
    auto results = runFunction(module, name, options, inputs);
    if (failed(results))
      return failure();
    all.insert(results->begin(), results->end());
  }
  return all;
}

} // namespace

FailureOr<NamedTensors> runFunction(ModuleOp module, StringRef function,
                                    const CompareOptions &options,
                                    LogicalValues &inputs) {
  const ProgramAdapter &adapter = getAdapter(module);
  Options settings = options.interpreter;
  settings.ranks = adapter.rankCount(module, options.ranks);
  Interpreter interpreter(settings);
  LogicalValues results;
  results.roundsCopies = inputs.roundsCopies;
  if (failed(adapter.run(module, function, interpreter, inputs, results)))
    return failure();
  return std::move(results.tensors);
}

LogicalResult compareResults(StringRef what, const NamedTensors &before,
                             const NamedTensors &after,
                             const CompareOptions &options, raw_ostream &report,
                             bool common) {
  int64_t compared = 0, differing = 0;
  double worst = 0;
  for (const auto &[name, a] : before) {
    auto it = after.find(name);
    if (it == after.end()) {
      if (common)
        continue;
      report << what << ": '" << name << "' is gone\n";
      ++differing;
      continue;
    }
    ++compared;
    Difference d = difference(a, it->second);
    worst = std::max(worst, d.relative);
    if (!isDifferent(a, it->second, d, options))
      continue;
    ++differing;
    report << what << ": '" << name << "' differs";
    if (d.shapes)
      report << " in type: " << a.shapeString() << " and "
             << it->second.shapeString() << "\n";
    else
      report << llvm::format(
          ": element %lld of %s is %.17g and %.17g, %.3g of the largest\n",
          (long long)d.at, a.shapeString().c_str(), a.number(d.at),
          it->second.number(d.at), d.relative);
  }
  if (!common)
    for (const auto &[name, b] : after)
      if (!before.count(name)) {
        report << what << ": '" << name << "' is new\n";
        ++differing;
      }
  report << what << ": " << compared << " values, " << differing
         << " differ in " << (options.exact ? "their bits" : "value")
         << llvm::format("; largest relative difference %.3g\n", worst);
  return success(differing == 0 && compared != 0);
}

LogicalResult compareModules(ModuleOp before, ModuleOp after,
                             const CompareOptions &options,
                             raw_ostream &report) {
  LogicalValues inputs(options.seed);
  inputs.tensors = options.inputs;
  inputs.roundsCopies = !options.interpreter.asF64;
  auto left = getAdapter(before).functions(before);
  auto right = getAdapter(after).functions(after);
  bool any = false;
  LogicalResult result = success();
  for (const std::string &name : left) {
    if (!llvm::is_contained(right, name))
      continue;
    any = true;
    auto a = runFunction(before, name, options, inputs);
    if (failed(a))
      return failure();
    auto b = runFunction(after, name, options, inputs);
    if (failed(b))
      return failure();
    if (failed(compareResults("@" + name, *a, *b, options, report, /*common=*/false)))
      result = failure();
  }
  if (any)
    return result;
  auto a = runAll(before, options, inputs);
  if (failed(a))
    return failure();
  auto b = runAll(after, options, inputs);
  if (failed(b))
    return failure();
  return compareResults("all functions", *a, *b, options, report, /*common=*/true);
}

} // namespace shale::interp
