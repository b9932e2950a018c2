//===- Hints.h - Which size of a flag an error may come from --------------===//
#ifndef SHALE_FRONTEND_ONNX_HINTS_H
#define SHALE_FRONTEND_ONNX_HINTS_H

#include "lib/Frontend/ONNX/States.h"

namespace shale::onnx {

/// Returns a hint for an error about `wants` positions where the model has
/// `has`: which --dim is too large. `tables` are the values with `has`
/// positions. Empty if no dimension has about that size.
std::string positionsHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> tables, int64_t has, int64_t wants);

/// Returns such a hint, as a sentence of its own, for sizes of `values` that do not broadcast.
std::string broadcastHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> values, int64_t one, int64_t other);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_HINTS_H
