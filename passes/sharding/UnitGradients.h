//===- UnitGradients.h - Gradients of flat groups -------------------------===//
#ifndef SHALE_PASSES_SHARDING_UNITGRADIENTS_H
#define SHALE_PASSES_SHARDING_UNITGRADIENTS_H

#include "passes/sharding/FlatFunction.h"
#include "passes/sharding/UnitResiduals.h"

namespace shale {
inline namespace sharding {

/// Packs the gradients of groups, reduces them over axes and adds them up over micro-batches.
class UnitGradients {
public:
  UnitGradients(Units &units, dist::MeshOp mesh, const UnitTraining &training, FlatFunction &flat,
                UnitResiduals &residuals);

  /// Reduces a group as soon as `op` computes its last gradient, except with strategy
  /// `optimizer`, which reduces at the end. Gradients that are only accumulated are
  /// added to the accumulator at once. Fails after an error.
  mlir::LogicalResult note(mlir::Operation *op);
  /// Packs the gradients of a group and reduces them over the data axes, unless that is done. Fails
  /// after an error.
  mlir::LogicalResult reduce(Group &group);
  /// Returns the reduced gradient of a group, null before: this rank's slice if the optimizer state
  /// is sliced, else the whole gradient.
  mlir::Value of(const Group &group) const { return reduced[group].gradient; }
  /// Converts a reduction over the elements of gradients to one over the flat gradients. Fails
  /// after an error.
  mlir::LogicalResult rewriteReduction(mlir::Operation *op);

private:
  /// The gradients of a group as far as they are computed.
  struct Reduced {
    int64_t toCome = 0;   ///< number of parameters whose gradients are not computed yet
    mlir::Value packed;   ///< not yet reduced
    mlir::Value gradient; ///< what the update reads, or the new sum of micro-batches
  };

  mlir::LogicalResult pack(Group &group);
  mlir::Value applyStep(Group &group, mlir::Value value, dist::ReductionStepAttr step);
  mlir::Value addToAccumulator(Group &group, mlir::Value now);
  mlir::Value castTo(mlir::Value value, mlir::Type element);

  Units &units;
  dist::MeshOp mesh;
  const UnitTraining &training;
  FlatFunction &flat;
  UnitResiduals &residuals;
  mlir::OpBuilder &builder;
  GroupMap<Reduced> reduced;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITGRADIENTS_H
