//===- Knobs.h - Flags that the planner varies ----------------------------===//
#ifndef SHALE_DRIVER_KNOBS_H
#define SHALE_DRIVER_KNOBS_H

#include "tools/driver/Options.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace shale {

/// A flag of shalec that changes only the plan, not the results of training, or
/// (`graph`) the program that is planned.
struct Knob {
  const char *flag;
  std::vector<std::string> values; ///< values that a search tries, the default first
  /// Returns the value; "" for a flag that is at a default which depends on other flags.
  std::string (*get)(const CompileOptions &);
  void (*set)(CompileOptions &, llvm::StringRef);
  /// Returns what is wrong with a value, or an empty string.
  std::string (*check)(llvm::StringRef);
  bool graph; ///< affects stages up to partition: shard, dtypes
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

/// Returns the knobs in which `options` differ from `base`: "--recompute block --prefetch 0".
std::string flagsBeside(const CompileOptions &options, const CompileOptions &base);

/// Options with equal keys give the same plan, or plans without relevant differences:
/// prefetching, for example, has no effect if no unit is gathered.
std::string planKey(const CompileOptions &options, int64_t ranks);

/// Returns the number of ranks of the options' mesh; 1 if the mesh is invalid.
int64_t rankCount(const CompileOptions &options);

/// Returns the combinations of the knobs that were not typed, one per key, `options` first.
std::vector<CompileOptions> candidates(const CompileOptions &options);

/// Parses "shard,recompute=none|block,offload=none|params,grads". Sets `knobs` to the named
/// knobs and `variants` to `options` with each combination of their values, in order. Returns
/// what is wrong, or an empty string.
std::string parseComparison(llvm::StringRef list, const CompileOptions &options,
                            std::vector<const Knob *> &knobs,
                            std::vector<CompileOptions> &variants);

} // namespace shale

#endif // SHALE_DRIVER_KNOBS_H
