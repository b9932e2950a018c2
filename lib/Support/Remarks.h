//===- Remarks.h - Remarks about what the compiler decided ----------------===//
//
// A pass or the importer reports a decision, with its numbers, by MLIR's remark
// engine. The category is the name of the pass, or "import". Nothing is shown unless
// a tool asks for it: shalec and shale-translate by showRemarks, shale-opt by MLIR's
// own flags (--remarks-filter).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_SUPPORT_REMARKS_H
#define SHALE_SUPPORT_REMARKS_H

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

namespace shale {

/// Reports `text` under a category.
void emitDecision(mlir::Location location, llvm::StringRef category, const llvm::Twine &text);

/// Emits a note that is attached to no other diagnostic. It is shown by default, unlike a remark,
/// and is no warning. MLIR has no function for this.
void emitNote(mlir::Location location, const llvm::Twine &text);

/// Makes remarks diagnostics, "TEXT [CATEGORY]", where the regular expression `filter` matches the
/// whole category; an empty one matches all. Fails if `filter` is not a regular expression.
llvm::Error showRemarks(mlir::MLIRContext &context, llvm::StringRef filter);

} // namespace shale

#endif // SHALE_SUPPORT_REMARKS_H
