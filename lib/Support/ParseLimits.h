//===- ParseLimits.h - Refuses text that MLIR's parser does not survive ---===//
#ifndef SHALE_SUPPORT_PARSELIMITS_H
#define SHALE_SUPPORT_PARSELIMITS_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace shale {

/// The largest nesting depth of brackets in MLIR text that the tools accept.
inline constexpr int64_t kMaxParseDepth = 256;
/// The most operators (+, -, *, floordiv, ceildiv, mod) of one expression, those of the
/// expressions around it included.
inline constexpr int64_t kMaxParseOperators = 1000;

/// MLIR's parser descends by recursion, and overflows the stack on text whose brackets nest some
/// ten thousand deep or whose affine expressions have as many operators. It takes positions of
/// llvm.insertvalue and llvm.extractvalue of 2^32 and more for others, and reads outside of the
/// type. Fails for such text, and for a string without an end, with an error that names file, line
/// and column. Takes linear time. Bytecode passes.
llvm::Error checkParseLimits(llvm::MemoryBufferRef buffer);

} // namespace shale

#endif // SHALE_SUPPORT_PARSELIMITS_H
