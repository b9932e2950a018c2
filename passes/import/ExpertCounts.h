//===- ExpertCounts.h - Ends of the groups of sorted rows -----------------===//
#ifndef SHALE_PASSES_IMPORT_EXPERTCOUNTS_H
#define SHALE_PASSES_IMPORT_EXPERTCOUNTS_H

#include "mlir/IR/Value.h"
#include <cstdint>

namespace shale::recover {

/// Proves that `ends`, a list of E integers, is computed from `experts`, a list of numbers in
/// [0, E), as ends[e] = the number of rows with an expert of at most e. It must be linear in a sum
/// over the rows of a function of each row's expert. Such a function has E values: the ops are
/// evaluated for each.
bool areEndsOf(mlir::Value ends, mlir::Value experts);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_EXPERTCOUNTS_H
