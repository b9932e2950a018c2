//===- Matching.h - Parameters that match a regular expression ------------===//
#ifndef SHALE_PASSES_ANNOTATE_MATCHING_H
#define SHALE_PASSES_ANNOTATE_MATCHING_H

#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Modules.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Regex.h"

namespace shale {

/// Returns the parameters (no buffers, no moments) with a name in which `regex`
/// matches. Fails after an error that names `option` if `regex` is not a regular
/// expression, or if it matches nothing; then the error lists the nearest names.
mlir::FailureOr<llvm::SmallVector<nn::StateOp>>
matchParameters(mlir::ModuleOp module, llvm::StringRef regex, llvm::StringRef option);

} // namespace shale

#endif // SHALE_PASSES_ANNOTATE_MATCHING_H
