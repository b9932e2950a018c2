//===- InputRanges.h - Valid integer ranges of a function's inputs --------===//
#ifndef SHALE_ANALYSIS_INPUTRANGES_H
#define SHALE_ANALYSIS_INPUTRANGES_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// Returns for each argument the range that all its uses as an index accept, or
/// nothing if it is not used as an index. Elements are followed through ops
/// that move them. If only some of the elements become indices (a slice), the
/// range applies to the argument only if it has no use without a range.
std::vector<std::optional<IndexRange>> inputRanges(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_ANALYSIS_INPUTRANGES_H
