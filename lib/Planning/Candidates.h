//===- Candidates.h - Flags of the plans that a search makes --------------===//
#ifndef SHALE_PLANNING_CANDIDATES_H
#define SHALE_PLANNING_CANDIDATES_H

#include "lib/Options/Knobs.h"
#include <vector>

namespace shale {

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

/// Returns `options` with each combination of the values of --compare, in order.
std::vector<CompileOptions> variantsOf(const CompileOptions &options);

} // namespace shale

#endif // SHALE_PLANNING_CANDIDATES_H
