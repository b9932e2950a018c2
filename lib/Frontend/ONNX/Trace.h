//===- Trace.h - What a value is computed from ----------------------------===//
#ifndef SHALE_FRONTEND_ONNX_TRACE_H
#define SHALE_FRONTEND_ONNX_TRACE_H

#include "lib/Frontend/ONNX/States.h"
#include "llvm/ADT/SetVector.h"

namespace shale::onnx {

/// Calls `visit` once on a value and on those that it is computed from, the nearest first. Where it
/// returns false, the values behind are left out.
void walkBack(mlir::Value value, llvm::function_ref<bool(mlir::Value)> visit);

/// Returns the arguments that a value is computed from.
llvm::SetVector<mlir::BlockArgument> argumentsBehind(mlir::Value value);

/// Returns the name of a parameter that the value is computed from, without a stop of gradients
/// between the two; empty if there is none.
std::string parameterBehind(const States &states, mlir::Value value);

/// The argument that integers come from. The element at index 0 of the last
/// dimension is at index `shift` of the argument's last dimension.
struct Origin {
  mlir::BlockArgument argument; // null: not known
  int64_t shift = 0;
};

/// Follows integers, such as labels or the indices of an embedding, back to an argument.
Origin traceTokens(mlir::Value value, int depth = 0);

/// Returns how many positions are sliced off the beginning of the logits; none if unknown.
std::optional<int64_t> traceLogits(mlir::Value value);

/// Returns a hint for an error about `wants` positions where the model has
/// `has`: which --dim is too large. `tables` are the values with `has`
/// positions. Empty if no dimension has about that size.
std::string positionsHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> tables, int64_t has, int64_t wants);

/// Returns such a hint, as a sentence of its own, for sizes of `values` that do not broadcast.
std::string broadcastHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> values, int64_t one, int64_t other);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRACE_H
