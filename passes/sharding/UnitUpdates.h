//===- UnitUpdates.h - Updates of flat groups -----------------------------===//
#ifndef SHALE_PASSES_SHARDING_UNITUPDATES_H
#define SHALE_PASSES_SHARDING_UNITUPDATES_H

#include "passes/sharding/FlatFunction.h"

namespace shale {
inline namespace sharding {

/// The new values of the states of a group.
struct UpdatedGroup {
  llvm::SmallVector<mlir::Value> results; ///< parameters, then moments; none without an update
  mlir::Value copy;                       ///< null if the group has none
};

/// Builds one update for each flat group, or for this rank's slice of it, in place of the updates
/// of the parameters.
class UnitUpdates {
public:
  UnitUpdates(Units &units, dist::MeshOp mesh, const UnitTraining &training, FlatFunction &flat)
      : units(units), mesh(mesh), training(training), flat(flat), builder(flat.getBuilder()),
        updated(units) {}

  /// Builds the update of a group from its reduced gradient. Fails after an error if the updates of
  /// the parameters differ in more than parameter, gradient, state and factors.
  mlir::LogicalResult build(Group &group, mlir::Value gradient);
  const UpdatedGroup &of(const Group &group) const { return updated[group]; }

private:
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> readOperands(Group &group, mlir::Value param,
                                                               mlir::Value gradient);
  mlir::Value stepOfPiece(Group &group, mlir::Value step);
  mlir::Value slicedOffset(Group &group);
  void buildElementwise(Group &group, mlir::ValueRange operands);
  mlir::LogicalResult buildTogether(Group &group, mlir::ValueRange operands);
  void numberElements(Group &group, mlir::ValueRange operands);

  Units &units;
  dist::MeshOp mesh;
  const UnitTraining &training;
  FlatFunction &flat;
  mlir::OpBuilder &builder;
  GroupMap<UpdatedGroup> updated;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITUPDATES_H
