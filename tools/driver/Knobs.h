//===- Knobs.h - Flags that the planner varies ----------------------------===//
#ifndef SHALE_DRIVER_KNOBS_H
#define SHALE_DRIVER_KNOBS_H

#include "tools/driver/Flags.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace shale {

/// A flag of shalec that changes only the plan, not the results of training, or the program that is
/// planned (its effect is Graph).
struct Knob {
  const Flag *flag;
  std::vector<std::string> values; ///< values that a search tries, the default first
  /// Values that tables and advice show, if fewer than `values`.
  std::vector<std::string> few = {};
  llvm::ArrayRef<std::string> shown() const { return few.empty() ? values : few; }
  /// Values that a search tries if units are gathered, if different from `values`.
  std::vector<std::string> gathered = {};
  llvm::ArrayRef<std::string> searched(const CompileOptions &options) const {
    return gathered.empty() || !options.gathersUnits() ? values : gathered;
  }
};

llvm::ArrayRef<Knob> allKnobs();
const Knob *knobNamed(llvm::StringRef flag);

/// Returns a value of --unit for units of which most models have several in a block: less of a
/// model is whole at once. `parameters`: the elements of the model's.
Knob smallerUnits(int64_t parameters);

/// Returns flags that no search varies, each with a value that may lower the peak: they change the
/// rounding, the threads, or the form of the program. `parameters`: as above.
std::vector<Knob> otherSavings(int64_t parameters);

/// Returns the flags in which `options` differ from `base`, knobs first: "--recompute block
/// --threads 1".
std::string flagsBeside(const CompileOptions &options, const CompileOptions &base);

/// Options with equal keys give the same plan of a recovered module, or plans without relevant
/// differences: prefetching, for example, has no effect if no unit is gathered. The key has all
/// flags that change the plan.
std::string planKey(const CompileOptions &options, int64_t ranks);

/// Returns the combinations of the knobs that were not typed, one per key, `options` first.
std::vector<CompileOptions> candidates(const CompileOptions &options);

/// Parses the value of --compare: "shard,recompute=none|block,offload=none|params,grads". Returns
/// what is wrong, or an empty string.
std::string parseComparison(llvm::StringRef list, std::vector<Comparison> &comparisons);

/// Returns `options` with each combination of the values of --compare, in order.
std::vector<CompileOptions> variantsOf(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_KNOBS_H
