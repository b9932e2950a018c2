//===- Origins.h - What a value is computed from --------------------------===//
#ifndef SHALE_ANALYSIS_ORIGINS_H
#define SHALE_ANALYSIS_ORIGINS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include <optional>

namespace shale {

/// Calls `visit` once on a value and on those that it is computed from, the nearest first. Where it
/// returns false, the values behind are left out.
void walkBack(mlir::Value value, llvm::function_ref<bool(mlir::Value)> visit);

/// Returns the arguments that a value is computed from.
llvm::SetVector<mlir::BlockArgument> argumentsBehind(mlir::Value value);

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

} // namespace shale

#endif // SHALE_ANALYSIS_ORIGINS_H
