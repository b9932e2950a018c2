//===- BufferSpan.h - Bytes of a buffer of rt -----------------------------===//
#ifndef SHALE_ANALYSIS_BUFFERSPAN_H
#define SHALE_ANALYSIS_BUFFERSPAN_H

#include "dialects/rt/RT.h"

namespace shale {

/// The place of a buffer: bytes [begin, begin + bytes) of a block, or a slice of these bytes. The
/// offset of a slice depends on the rank.
struct BufferSpan {
  rt::BufferOp block;
  int64_t begin = 0, bytes = 0;
  /// Axis, bytes of a slice, offset in it.
  llvm::SmallVector<std::tuple<llvm::StringRef, int64_t, int64_t>> slices;

  /// Whether both may have a byte in common, on some rank.
  bool overlaps(const BufferSpan &other) const;
  bool operator==(const BufferSpan &other) const;
};

/// Follows views and shards to the allocation. `block` is null if there is none.
BufferSpan spanOf(mlir::Value buffer);

} // namespace shale

#endif // SHALE_ANALYSIS_BUFFERSPAN_H
