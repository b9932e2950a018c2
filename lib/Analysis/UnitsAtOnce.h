//===- UnitsAtOnce.h - Units that are whole or in flight ------------------===//
#ifndef SHALE_ANALYSIS_UNITSATONCE_H
#define SHALE_ANALYSIS_UNITSATONCE_H

#include "dialects/rt/RT.h"

namespace shale {

struct ProgramLiveness;

/// One group of a unit, from where its gather or its copy starts to its last reader.
struct WholeUnit {
  llvm::StringRef unit;
  int64_t begin, firstRead, lastRead; // positions of ops
};

/// The units that are whole or in flight at one op. A unit counts once, however many groups it has.
struct UnitsAtOnce {
  int64_t all = 0, inUse = 0;  // in use: a reader was before the op, or is the op
  std::optional<size_t> ahead; // one that is not in use
};

UnitsAtOnce unitsAt(llvm::ArrayRef<WholeUnit> wholes, int64_t position);

/// Returns the groups of units that a planned program gathers or copies.
llvm::SmallVector<WholeUnit> wholeUnitsOf(rt::FuncOp function, const ProgramLiveness &liveness);

/// Returns the largest number of units at one op.
int64_t mostUnitsAtOnce(llvm::ArrayRef<WholeUnit> wholes);

} // namespace shale

#endif // SHALE_ANALYSIS_UNITSATONCE_H
