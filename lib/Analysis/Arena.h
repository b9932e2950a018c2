//===- Arena.h - Offsets for buffers with lifetimes -----------------------===//
//
// Best fit in order of decreasing size over a fixed schedule, as in XLA's
// GlobalDecreasingSizeBestFitHeap (service/heap_simulator).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_ARENA_H
#define SHALE_ANALYSIS_ARENA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace shale {

/// A buffer's size and the positions [begin, end] of the schedule at which it is live.
struct Lifetime {
  int64_t bytes;
  int64_t begin, end;
};

struct ArenaLayout {
  /// One offset in bytes per lifetime, a multiple of the alignment.
  llvm::SmallVector<int64_t> offsets;
  int64_t bytes = 0; ///< of the whole arena
};

/// Assigns offsets such that lifetimes that overlap in time do not overlap in memory.
ArenaLayout layOutArena(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment);

/// Returns the largest sum of bytes, each rounded up to the alignment, that is live at one
/// position. This is a lower bound for every layout. If `at` is not null, sets it to the first
/// such position.
int64_t maxLiveBytes(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment, int64_t *at = nullptr);

} // namespace shale

#endif // SHALE_ANALYSIS_ARENA_H
