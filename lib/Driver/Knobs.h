//===- Knobs.h - Flags that plans differ in -------------------------------===//
#ifndef SHALE_DRIVER_KNOBS_H
#define SHALE_DRIVER_KNOBS_H

#include "lib/Driver/Options.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace shale {

/// A flag of shalec that changes the plan and nothing of the training run, or
/// (`graph`) the program that is planned.
struct Knob {
  const char *flag;
  std::vector<std::string> values; ///< what a search tries, the default first
  std::string (*get)(const CompileOptions &);
  void (*set)(CompileOptions &, llvm::StringRef);
  bool graph;     ///< its change begins before partition: shard, dtypes
  bool gathers;   ///< matters only where units are gathered: --shard full on several ranks
};

llvm::ArrayRef<Knob> allKnobs();
const Knob *knobNamed(llvm::StringRef flag);

/// "--recompute block --prefetch 0": the knobs in which `options` differ from `base`.
std::string flagsBeside(const CompileOptions &options, const CompileOptions &base);

/// Every combination of the knobs that were not typed, `options` first.
std::vector<CompileOptions> candidates(const CompileOptions &options, int64_t ranks);

} // namespace shale

#endif // SHALE_DRIVER_KNOBS_H
