//===- Compare.cpp - Compares programs on the same values -----------------===//
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

Difference difference(const Tensor &a, const Tensor &b, double floor) {
  Difference result;
  if (a.shape() != b.shape() || (a.element() != b.element() && !(a.isFloat() && b.isFloat()))) {
    result.shapes = true;
    return result;
  }
  if (a.size() == 0 || std::memcmp(a.cells(), b.cells(), a.size() * sizeof(Cell)) == 0)
    return result;
  double largest = floor, worst = -1;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a.number(i)))
      largest = std::max(largest, std::fabs(a.number(i)));
    if (a.cells()[i] == b.cells()[i] || a.number(i) == b.number(i))
      continue;
    double by = std::fabs(a.number(i) - b.number(i));
    if (std::isnan(by)) // one of them is NaN, or both with different bits
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

CompareOptions exactly() {
  CompareOptions options;
  options.exact = true;
  return options;
}

/// The results of a module's functions, in their order.
using Results = std::vector<std::pair<std::string, NamedTensors>>;

FailureOr<Results> runAll(ModuleOp module, const CompareOptions &options, LogicalValues &inputs) {
  Results all;
  for (const std::string &name : getAdapter(module).functions(module)) {
    auto results = runFunction(module, name, options, inputs);
    if (failed(results))
      return failure();
    all.emplace_back(name, std::move(*results));
  }
  return all;
}

NamedTensors merged(const Results &functions) {
  NamedTensors all;
  for (const auto &[name, results] : functions)
    all.insert(results.begin(), results.end());
  return all;
}

const NamedTensors *resultsOf(const Results &functions, StringRef name) {
  auto it = llvm::find_if(functions, [&](const auto &function) { return function.first == name; });
  return it == functions.end() ? nullptr : &it->second;
}

/// Compares functions by name. Programs without a common function, such as a forward pass and its
/// step, are compared by the results that both have; else a function that one of them lacks is a
/// difference.
LogicalResult comparePair(const Results &before, const Results &after,
                          const CompareOptions &options, raw_ostream &report, double &worst) {
  if (llvm::none_of(before, [&](const auto &function) { return resultsOf(after, function.first); }))
    return compareResults("all functions", merged(before), merged(after), options, report,
                          /*common=*/true, &worst);
  LogicalResult result = success();
  for (const auto &[name, results] : before) {
    const NamedTensors *others = resultsOf(after, name);
    if (!others)
      report << "@" << name << ": is missing from the other program\n";
    if (!others || failed(compareResults("@" + name, results, *others, options, report,
                                         /*common=*/false, &worst)))
      result = failure();
  }
  for (const auto &[name, results] : after)
    if (!resultsOf(before, name)) {
      report << "@" << name << ": is new\n";
      result = failure();
    }
  return result;
}

} // namespace

FailureOr<NamedTensors> runFunction(ModuleOp module, StringRef function,
                                    const CompareOptions &options, LogicalValues &inputs) {
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

LogicalResult compareResults(StringRef what, const NamedTensors &before, const NamedTensors &after,
                             const CompareOptions &options, raw_ostream &report, bool common,
                             double *largest) {
  int64_t compared = 0, differing = 0;
  double worst = 0;
  for (const auto &[name, a] : before) {
    auto it = after.find(name);
    if (it == after.end()) {
      if (common)
        continue;
      report << what << ": '" << name << "' is missing from the other program\n";
      ++differing;
      continue;
    }
    ++compared;
    Difference d = difference(a, it->second, options.floor);
    worst = std::max(worst, d.relative);
    if (!isDifferent(a, it->second, d, options))
      continue;
    ++differing;
    report << what << ": '" << name << "' differs";
    if (d.shapes)
      report << " in type: " << a.shapeString() << " and " << it->second.shapeString() << "\n";
    else
      report << llvm::format(": element %lld of %s is %.17g and %.17g, %.3g of the largest\n",
                             (long long)d.at, a.shapeString().c_str(), a.number(d.at),
                             it->second.number(d.at), d.relative);
  }
  if (!common)
    for (const auto &[name, b] : after)
      if (!before.count(name)) {
        report << what << ": '" << name << "' is new\n";
        ++differing;
      }
  report << what << ": " << compared << " values, " << differing << " differ in "
         << (options.exact ? "their bits" : "value")
         << llvm::format("; largest relative difference %.3g\n", worst);
  if (largest)
    *largest = std::max(*largest, worst);
  return success(differing == 0 && compared != 0);
}

/// Whether two programs have the same functions with the same results, to the
/// bit.
static bool sameBits(const Results &a, const Results &b) {
  auto same = [](const NamedTensors &x, const NamedTensors &y) {
    return x.size() == y.size() && llvm::all_of(x, [&](const auto &entry) {
             auto it = y.find(entry.first);
             return it != y.end() && it->second.shape() == entry.second.shape() &&
                    !isDifferent(entry.second, it->second, {}, exactly());
           });
  };
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [&](const auto &pair) {
           const auto &[x, y] = pair;
           return x.first == y.first && same(x.second, y.second);
         });
}

/// Writes a line for each class of two or more programs with the same bits.
static void reportBits(const std::vector<Results> &all, ArrayRef<std::string> names,
                       raw_ostream &report) {
  std::vector<bool> told(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    std::string line;
    for (size_t j = i + 1; j < all.size() && !told[i]; ++j)
      if (!told[j] && sameBits(all[i], all[j])) {
        line += " " + names[j];
        told[j] = true;
      }
    if (!line.empty())
      report << "same bits: " << names[i] << line << "\n";
  }
}

LogicalResult compareModules(ArrayRef<ModuleOp> modules, ArrayRef<std::string> names,
                             const CompareOptions &options, raw_ostream &report) {
  LogicalValues inputs(options.seed);
  inputs.tensors = options.inputs;
  inputs.roundsCopies = !options.interpreter.asF64;
  std::vector<Results> all;
  for (ModuleOp module : modules) {
    auto results = runAll(module, options, inputs);
    if (failed(results))
      return failure();
    all.push_back(std::move(*results));
  }
  double worst = 0;
  if (all.size() == 2)
    return comparePair(all[0], all[1], options, report, worst);
  int64_t pairs = 0, differing = 0;
  std::string worstPair;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      std::string pair = names[i] + " and " + names[j], lines;
      llvm::raw_string_ostream said(lines);
      double before = worst;
      bool differs = failed(comparePair(all[i], all[j], options, said, worst));
      ++pairs;
      differing += differs;
      if (worst > before)
        worstPair = " of " + pair;
      if (differs)
        report << pair << ":\n" << lines;
    }
  reportBits(all, names, report);
  report << all.size() << " programs, " << pairs << " pairs, " << differing << " differ in "
         << (options.exact ? "their bits" : "value")
         << llvm::format("; largest relative difference %.3g", worst) << worstPair << "\n";
  return success(differing == 0);
}

} // namespace shale::interp
