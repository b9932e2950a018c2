//===- Knobs.h - Flags that the planner varies ----------------------------===//
#ifndef SHALE_OPTIONS_KNOBS_H
#define SHALE_OPTIONS_KNOBS_H

#include "lib/Options/Flags.h"
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

/// Returns the knobs in the order in which plans are made and shown.
llvm::ArrayRef<Knob> allKnobs();
const Knob *knobNamed(llvm::StringRef flag);

/// Parses the value of --compare: "shard,recompute=none|block,offload=none|params,grads". Returns
/// what is wrong, or an empty string.
std::string parseComparison(llvm::StringRef list, std::vector<Comparison> &comparisons);

} // namespace shale

#endif // SHALE_OPTIONS_KNOBS_H
