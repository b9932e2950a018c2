//===- ProgramLiveness.h - When each buffer of a program is live ----------===//
#ifndef SHALE_ANALYSIS_PROGRAMLIVENESS_H
#define SHALE_ANALYSIS_PROGRAMLIVENESS_H

#include "dialects/rt/RT.h"
#include <vector>

namespace shale {

struct LiveBuffer {
  rt::BufferOp op;
  int64_t bytes;
  /// Positions of the first and the last access; a collective accesses until its wait.
  int64_t begin, end;
};

/// Liveness computed from an rt.func alone.
struct ProgramLiveness {
  /// In the order of first access; buffers that nobody accesses are not there.
  std::vector<LiveBuffer> buffers;
  /// Position of each op, from 0.
  llvm::DenseMap<mlir::Operation *, int64_t> positions;

  /// Fails after an error where a buffer of the arena is read before it is
  /// written or a collective or copy is not waited for. The interpreter takes such
  /// programs too: it has NaN in these places.
  mlir::LogicalResult run(rt::FuncOp function, bool strict = true);
};

} // namespace shale

#endif // SHALE_ANALYSIS_PROGRAMLIVENESS_H
