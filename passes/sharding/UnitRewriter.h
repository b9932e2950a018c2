//===- UnitRewriter.h - Moves a function's parameters into units ----------===//
#ifndef SHALE_PASSES_SHARDING_UNITREWRITER_H
#define SHALE_PASSES_SHARDING_UNITREWRITER_H

#include "passes/sharding/UnitGradients.h"
#include "passes/sharding/UnitUpdates.h"

namespace shale {
inline namespace sharding {

/// Rebuilds one rank's function, op by op in order: parameters are views of flat groups, gradients
/// are packed and reduced, updates run on flat groups.
class UnitRewriter {
public:
  /// Replaces the function. Fails after an error.
  static mlir::LogicalResult rewrite(mlir::func::FuncOp function, dist::MeshOp mesh, Units &units);

private:
  UnitRewriter(mlir::func::FuncOp function, dist::MeshOp mesh, Units &units,
               const UnitTraining &training);

  mlir::LogicalResult rewriteOp(mlir::Operation *op);
  mlir::LogicalResult rewriteUpdate(OptimizerUpdateOpInterface update);
  mlir::LogicalResult rewriteReturn(mlir::Operation *op);

  Units &units;
  const UnitTraining &training;
  FlatFunction flat;
  UnitResiduals residuals;
  UnitGradients gradients;
  UnitUpdates updates;
  GroupMap<size_t> updatesSeen; ///< number of the updates of each group's parameters so far
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITREWRITER_H
