//===- ProgramLiveness.h - Live ranges of a program's buffers -------------===//
#ifndef SHALE_ANALYSIS_PROGRAMLIVENESS_H
#define SHALE_ANALYSIS_PROGRAMLIVENESS_H

#include "dialects/rt/RT.h"
#include <vector>

namespace shale {

/// A buffer and its live range.
struct LiveBuffer {
  rt::BufferOp op;
  int64_t bytes;
  /// Positions of the first and the last access; a collective accesses until its wait.
  int64_t begin, end;
};

/// Liveness computed from an rt.func alone.
struct ProgramLiveness {
  /// In the order of first access; buffers without an access are left out.
  std::vector<LiveBuffer> buffers;
  /// Position of each op, from 0.
  llvm::DenseMap<mlir::Operation *, int64_t> positions;

  /// Computes `buffers` and `positions`. If `strict`, fails after an error if a buffer
  /// of the arena is read before it is written or a collective or copy has no wait.
  /// The interpreter also runs such programs: it reads NaN in these places.
  mlir::LogicalResult run(rt::FuncOp function, bool strict = true);
};

} // namespace shale

#endif // SHALE_ANALYSIS_PROGRAMLIVENESS_H
