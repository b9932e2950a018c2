//===- Reshard.h - Converts a value to another layout ---------------------===//
#ifndef SHALE_PASSES_SHARDING_RESHARD_H
#define SHALE_PASSES_SHARDING_RESHARD_H

#include "mlir/IR/Builders.h"
#include "passes/sharding/TensorLayout.h"

namespace shale {
inline namespace sharding {

/// Converts `value`, one rank's part in layout `from`, to layout `to`. P, S and R
/// stand for partial, split and replicated. Reduce-scatters (P -> S) or all-reduces
/// (P -> R) partial values, then moves splits to another dimension by all-to-all
/// (S -> S), all-gathers splits (S -> R), and slices replicated values (R -> S).
/// `to` may be partial only on axes on which `from` is. All-reduces over data axes come last: those
/// of gradients become reductions of whole units.
mlir::Value reshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                    TensorLayout from, const TensorLayout &to, dist::MeshOp mesh);

/// Returns `yes` where `condition`, a scalar i1 tensor, is true, else `no`; both are of one type.
mlir::Value choose(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value condition,
                   mlir::Value yes, mlir::Value no);

/// Makes a value that is replicated over `axis` a partial sum over it (R -> P): the first rank
/// keeps it, the others have zeros.
mlir::Value onFirstRank(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        llvm::StringRef axis);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_RESHARD_H
