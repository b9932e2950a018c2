//===- Knobs.h - Flags that plans differ in -------------------------------===//
#ifndef SHALE_DRIVER_KNOBS_H
#define SHALE_DRIVER_KNOBS_H

#include "tools/driver/Options.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace shale {

/// A flag of shalec that changes the plan and nothing of the training run, or
/// (`graph`) the program that is planned.
struct Knob {
  const char *flag;
  std::vector<std::string> values; ///< what a search tries, the default first
  /// The value; of a flag whose default depends on others and that is at it, "".
  std::string (*get)(const CompileOptions &);
  void (*set)(CompileOptions &, llvm::StringRef);
  /// What is wrong with a value, or an empty string.
  std::string (*check)(llvm::StringRef);
  bool graph; ///< its change begins before partition: shard, dtypes
  /// What tables and advice show, where that is less.
  std::vector<std::string> few = {};
  llvm::ArrayRef<std::string> shown() const { return few.empty() ? values : few; }
  /// What a search tries where units are gathered, if that is something else.
  std::vector<std::string> gathered = {};
  llvm::ArrayRef<std::string> searched(const CompileOptions &options) const {
    return gathered.empty() || !options.gathersUnits() ? values : gathered;
  }
};

llvm::ArrayRef<Knob> allKnobs();
const Knob *knobNamed(llvm::StringRef flag);

/// "--recompute block --prefetch 0": the knobs in which `options` differ from `base`.
std::string flagsBeside(const CompileOptions &options, const CompileOptions &base);

/// Options of equal keys give the same plan, or plans that differ in nothing that
/// matters: where no unit is gathered it is no use to gather it ahead.
std::string planKey(const CompileOptions &options, int64_t ranks);

/// Ranks of the mesh that the options name; 1 where it is no mesh.
int64_t rankCount(const CompileOptions &options);

/// Every combination of the knobs that were not typed, of each key one, `options` first.
std::vector<CompileOptions> candidates(const CompileOptions &options);

/// Parses "shard,recompute=none|block,offload=none|params,grads": the combinations of
/// the named knobs' values, beside `options`, in order, and the knobs. Returns what is
/// wrong, or an empty string.
std::string parseComparison(llvm::StringRef list, const CompileOptions &options, std::vector<const Knob *> &knobs,
                            std::vector<CompileOptions> &variants);

} // namespace shale

#endif // SHALE_DRIVER_KNOBS_H
