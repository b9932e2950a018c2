//===- ParseDepth.h - Rejects text that nests too deep to be parsed -------===//
#ifndef SHALE_SUPPORT_PARSEDEPTH_H
#define SHALE_SUPPORT_PARSEDEPTH_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace shale {

/// The largest nesting depth of brackets in MLIR text that the tools accept.
inline constexpr int64_t kMaxParseDepth = 256;

/// MLIR's parser descends by recursion and overflows the stack on text whose
/// brackets nest some ten thousand deep; strings and comments do not count.
/// Fails with an error that names file, line and column when `buffer` nests
/// deeper than kMaxParseDepth. Bytecode passes.
llvm::Error checkParseDepth(llvm::MemoryBufferRef buffer);

} // namespace shale

#endif // SHALE_SUPPORT_PARSEDEPTH_H
