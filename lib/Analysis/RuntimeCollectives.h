//===- RuntimeCollectives.h - Collectives that the runtime executes -------===//
#ifndef SHALE_ANALYSIS_RUNTIMECOLLECTIVES_H
#define SHALE_ANALYSIS_RUNTIMECOLLECTIVES_H

#include "dialects/interfaces/Interfaces.h"
#include <string>

namespace shale {

/// Returns the name of the collective that the runtime lacks for `op`, such as "all-to-all"; empty
/// if it executes the op. The runtime gathers and scatters along the first dimension, exchanges one
/// row for each rank, and reduces by sums.
std::string findMissingCollective(CollectiveOpInterface op);

} // namespace shale

#endif // SHALE_ANALYSIS_RUNTIMECOLLECTIVES_H
