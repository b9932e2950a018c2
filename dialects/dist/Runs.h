//===- Runs.h - Segments that follow one another ---------------------------===//
#ifndef SHALE_DIST_RUNS_H
#define SHALE_DIST_RUNS_H

#include "dialects/dist/Dist.h"

namespace shale::dist {

/// Returns the segment of `param` and those after it that have, one below another and without a
/// gap, the rows of a matrix of `shape`; one segment if that has this shape; none if they do not
/// fit.
llvm::SmallVector<SegmentAttr, 3> findRun(GroupAttr group, llvm::StringRef param,
                                          llvm::ArrayRef<int64_t> shape);

/// Returns the operand that has the gradient of `param`, or null.
mlir::Value findInput(UnitPackOp pack, llvm::StringRef param);

/// Whether a view has the elements of `param`.
bool hasParameter(UnitViewOp view, llvm::StringRef param);

} // namespace shale::dist

#endif // SHALE_DIST_RUNS_H
