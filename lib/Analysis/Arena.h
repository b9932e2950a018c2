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

/// Bytes that are taken at positions [begin, end] of the schedule.
struct Lifetime {
  int64_t bytes;
  int64_t begin, end;
};

struct ArenaLayout {
  /// One per lifetime, multiples of the alignment.
  llvm::SmallVector<int64_t> offsets;
  int64_t bytes = 0;
};

/// Places lifetimes so that two that meet in time are apart in memory.
ArenaLayout layOutArena(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment);

/// The largest sum of bytes, each rounded up to the alignment, that is live at
/// one position: no layout takes less. `at`, if not null, becomes the first such position.
int64_t maxLiveBytes(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment, int64_t *at = nullptr);

} // namespace shale

#endif // SHALE_ANALYSIS_ARENA_H
