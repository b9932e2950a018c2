//===- UnitTraining.h - How a function trains groups of parameters --------===//
#ifndef SHALE_PASSES_SHARDING_UNITTRAINING_H
#define SHALE_PASSES_SHARDING_UNITTRAINING_H

#include "dialects/interfaces/Interfaces.h"
#include "passes/sharding/Units.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {
inline namespace sharding {

/// A gradient before it is summed over axes and rounded.
struct PartialGradient {
  mlir::Value value;
  AxisList axes; ///< those over which the value is a partial sum
};

/// How a function trains the parameters of a group.
struct GroupTraining {
  llvm::SmallVector<OptimizerUpdateOpInterface> updates; ///< by parameter; null if there is none
  llvm::SmallVector<PartialGradient, 2> gradients;       ///< by parameter, of this micro-batch
  /// Whether gradients are summed over micro-batches: they are added to the accumulator (an
  /// argument), or, with `begins`, start the sum.
  bool accumulates = false, begins = false;
  /// Axes over which the packed gradients are reduced.
  AxisList partialAxes;

  /// Returns the update of the first parameter; null if there is none.
  OptimizerUpdateOpInterface firstUpdate() const {
    return updates.empty() ? OptimizerUpdateOpInterface() : updates.front();
  }
  /// Whether the function updates the group: either all of its parameters or none.
  bool isUpdated() const { return bool(firstUpdate()); }
  /// Whether the function reduces the gradients.
  bool reduces(const StoragePolicy &policy) const {
    return isUpdated() || (accumulates && !policy.reduceOnce);
  }
  /// Returns the axes of a step of the reduction on which the gradients are partial.
  AxisList partialIn(dist::ReductionStepAttr step) const;
};

/// The updates and accumulations of a function, by group, and the ops that flat groups replace.
class UnitTraining {
public:
  /// Reads a function. Fails after an error if it trains a part of a group, or if an update does
  /// not read the sum of all micro-batches.
  static mlir::FailureOr<UnitTraining> read(mlir::func::FuncOp function, dist::MeshOp mesh,
                                            Units &units);

  const GroupTraining &of(const Group &group) const { return groups[group]; }
  /// Returns the groups that have a value as a gradient, before its sums: once for each parameter.
  llvm::ArrayRef<Group *> groupsOf(mlir::Value gradient) const;
  /// Whether an op is a sum or a cast between a gradient and its update, norm or accumulation. The
  /// flat group is reduced and cast instead.
  bool isAbsorbed(mlir::Operation *op) const { return absorbed.contains(op); }

private:
  explicit UnitTraining(const Units &units) : groups(units) {}

  mlir::LogicalResult readAccumulations(mlir::func::FuncOp function, Units &units);
  mlir::LogicalResult readUpdates(mlir::func::FuncOp function, Units &units);
  void addGradient(Group &group, int64_t place, const PartialGradient &gradient);
  PartialGradient beforeSums(mlir::Value gradient, const Group &group);
  bool feedsGradientsOnly(mlir::Operation *op);

  GroupMap<GroupTraining> groups;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Group *, 1>> byGradient;
  llvm::DenseSet<mlir::Operation *> absorbed;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITTRAINING_H
