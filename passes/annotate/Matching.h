//===- Matching.h - Parameters by the user's regular expression -----------===//
#ifndef SHALE_PASSES_ANNOTATE_MATCHING_H
#define SHALE_PASSES_ANNOTATE_MATCHING_H

#include "lib/Analysis/Modules.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Regex.h"

namespace shale {

/// The parameters (no buffers, no moments) in one of whose names `regex`
/// matches. Fails after an error that names `option`, when it is no regular
/// expression or matches nothing; then the nearest names are listed.
mlir::FailureOr<llvm::SmallVector<nn::StateOp>>
matchParameters(mlir::ModuleOp module, llvm::StringRef regex,
                llvm::StringRef option);

} // namespace shale

#endif // SHALE_PASSES_ANNOTATE_MATCHING_H
