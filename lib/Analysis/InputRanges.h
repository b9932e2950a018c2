//===- InputRanges.h - Which integers a function's inputs may hold --------===//
#ifndef SHALE_ANALYSIS_INPUTRANGES_H
#define SHALE_ANALYSIS_INPUTRANGES_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// For each argument the range that all its uses as an index take, nothing
/// where it is not used as one. Elements are followed through ops that move
/// them; where only some go on to be indices (a slice), the range is the
/// argument's only if no other use reads it without one.
std::vector<std::optional<IndexRange>> inputRanges(mlir::func::FuncOp function);

} // namespace shale

#endif // SHALE_ANALYSIS_INPUTRANGES_H
