//===- Reshard.h - From one layout to another -----------------------------===//
#ifndef SHALE_PASSES_SHARDING_RESHARD_H
#define SHALE_PASSES_SHARDING_RESHARD_H

#include "mlir/IR/Builders.h"
#include "passes/sharding/Layout.h"

namespace shale {
inline namespace sharding {

/// Builds what brings `value`, one rank's part in layout `from`, to layout `to`:
/// partial values are scattered (P -> S) or reduced (P -> R), splits move to
/// another dimension (S -> S), are gathered (S -> R), and last what is whole is
/// sliced. `to` is partial only where `from` is.
mlir::Value reshard(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value value, Layout from, const Layout &to,
                    dist::MeshOp mesh);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_RESHARD_H
