//===- UnitResiduals.h - What quantized gradients lack --------------------===//
#ifndef SHALE_PASSES_SHARDING_UNITRESIDUALS_H
#define SHALE_PASSES_SHARDING_UNITRESIDUALS_H

#include "passes/sharding/FlatFunction.h"

namespace shale {
inline namespace sharding {

/// Declares the states of the groups that a function reduces in an encoding: one for each rounding,
/// in the order in which gradients are reduced. A value that is scattered is rounded once: by its
/// senders. One that all ranks need is rounded a second time, when their sums are gathered. Fails
/// without an error if another function has declared other states.
mlir::LogicalResult declareResiduals(Units &units, dist::MeshOp mesh, const UnitTraining &training);

/// The residuals of a function: what values lacked when they were sent in an encoding, which is
/// added to the next ones of their kind.
class UnitResiduals {
public:
  UnitResiduals(const Units &units, const UnitTraining &training, FlatFunction &flat)
      : training(training), flat(flat), made(units) {}

  /// Adds to a gradient of a group the rounding error of the last time the group was sent, and
  /// keeps the rounding error of this time.
  mlir::Value add(Group &group, mlir::Value value, dist::EncodingAttr encoding);
  /// Leaves the residuals of an updated group as they were in a step that is left out, as its
  /// updates leave their state.
  void keep(Group &group);
  /// Returns the new residuals of a group as far as they are computed, in the order of its states.
  llvm::ArrayRef<mlir::Value> of(const Group &group) const { return made[group]; }

private:
  const UnitTraining &training;
  FlatFunction &flat;
  GroupMap<llvm::SmallVector<mlir::Value, 2>> made;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITRESIDUALS_H
