//===- UnitRewriter.h - Moves a function's parameters into units ----------===//
#ifndef SHALE_PASSES_SHARDING_UNITREWRITER_H
#define SHALE_PASSES_SHARDING_UNITREWRITER_H

#include "mlir/IR/IRMapping.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/Units.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {
inline namespace sharding {

/// Rebuilds one rank's function, op by op in order: parameters are views of flat groups, gradients
/// are packed and reduced, updates run on flat groups.
class UnitRewriter {
public:
  UnitRewriter(mlir::func::FuncOp function, dist::MeshOp mesh, Units &units);

  /// Replaces the function. Fails after an error.
  mlir::LogicalResult run();

private:
  /// A gradient before it is summed over axes and rounded.
  struct Gradient {
    mlir::Value value; // of the old function
    AxisList axes;     // those over which it is a partial sum
  };
  /// A group's values in this function.
  struct GroupValues {
    mlir::Value atRest; // the argument of the parameters
    mlir::Value whole;
    llvm::SmallVector<mlir::Value> moments;
    llvm::SmallVector<OptimizerUpdateOpInterface> updates; // by parameter; null if there is none
    llvm::SmallVector<Gradient, 2> gradients;              // by parameter, of this micro-batch
    int64_t gradientsToCome = 0, updatesToCome = 0;
    /// Whether gradients are summed over micro-batches: they are added to the
    /// accumulator (an argument), or, with `begins`, start the sum.
    bool accumulates = false, begins = false;
    mlir::Value accumulator;
    /// The arguments of Group::residuals and Group::pendingResiduals, and the new values as far as
    /// they are computed.
    llvm::SmallVector<mlir::Value, 2> residuals, pendingResiduals, newResiduals;
    mlir::Value packed;                     // not yet reduced
    mlir::Value gradient;                   // reduced; what the update reads
    mlir::Value newCopy;                    // copy of the new parameters, or null
    llvm::SmallVector<mlir::Value> results; // new parameter, new moments
  };

  // UnitRewriter.cpp
  mlir::LogicalResult collectUpdates();
  Gradient beforeSums(mlir::Value gradient, const Group &group);
  void makeSignature();
  mlir::LogicalResult rewrite(mlir::Operation *op);
  void rewriteOp(mlir::Operation *op);
  bool isViewCast(mlir::Operation *op);
  bool isOutside(mlir::FlatSymbolRefAttr symbol);
  mlir::LogicalResult rewriteReturn(mlir::Operation *op);
  mlir::Value lookup(mlir::Value old);
  mlir::Value refuseRead(mlir::BlockArgument argument);
  mlir::Value view(Group &group, int64_t param);
  GroupValues &valuesOf(Group &group) { return groups[&group - units.groups.data()]; }

  // UnitGradients.cpp
  mlir::LogicalResult noteGradients(mlir::Operation *op);
  mlir::LogicalResult packGradients(Group &group);
  mlir::LogicalResult reduceGradients(Group &group);
  mlir::LogicalResult reduceAllGradients();
  /// Whether the function reduces the gradients of the group.
  bool reducesIn(Group &group) {
    const GroupValues &values = valuesOf(group);
    return values.updatesToCome > 0 || (values.accumulates && !units.policy.reduceOnce);
  }
  AxisList partialAxesOf(Group &group);
  mlir::LogicalResult declareResiduals(Group &group);
  mlir::Value withResidual(Group &group, mlir::Value value, dist::EncodingAttr encoding);
  void keepResiduals(Group &group);
  /// Returns the axes of a step on which the gradients are partial.
  AxisList partialIn(dist::ReductionStepAttr step, const AxisList &partial);
  /// Returns the axis that joins these: over one, itself.
  llvm::StringRef joined(AxisList axes);
  mlir::Value reduce(Group &group, mlir::Value value, dist::ReductionStepAttr step,
                     const AxisList &axes);
  mlir::Value addToAccumulator(Group &group, mlir::Value now);
  mlir::Value castTo(mlir::Value value, mlir::Type element);
  mlir::LogicalResult rewriteReduction(mlir::Operation *op);

  // UnitUpdates.cpp. `lists` has the places of the parameters of a group that are one in the
  // model.
  llvm::SmallVector<mlir::Value> sumOverSlices(Group &group, mlir::ValueRange parts);
  llvm::SmallVector<mlir::Value> gatherParameters(Group &group,
                                                  llvm::ArrayRef<llvm::SmallVector<int64_t>> lists,
                                                  mlir::Value slice);
  llvm::SmallVector<mlir::Value>
  divideMatrices(Group &group, mlir::ValueRange matrices,
                 llvm::function_ref<mlir::Value(mlir::Value)> function);
  mlir::Value takeSlice(Group &group, llvm::ArrayRef<llvm::SmallVector<int64_t>> lists,
                        mlir::ValueRange wholes);
  mlir::LogicalResult buildTogether(Group &group, mlir::ValueRange operands);
  mlir::LogicalResult rewriteUpdate(OptimizerUpdateOpInterface update);
  mlir::LogicalResult buildUpdate(Group &group);
  mlir::Value slicedOffset(Group &group);
  mlir::Value stepOfPiece(Group &group, mlir::Value step);
  void numberElements(Group &group, mlir::ValueRange operands);
  void buildElementwise(Group &group, mlir::ValueRange operands);

  mlir::func::FuncOp function, fresh;
  dist::MeshOp mesh;
  Units &units;
  AxisList sumAxes; ///< data axes, then tensor axes
  CopyUnsharded listener;
  mlir::OpBuilder builder;
  std::vector<GroupValues> groups;
  mlir::IRMapping mapping;
  llvm::DenseMap<mlir::Value, std::pair<Group *, int64_t>> states; // by old argument
  /// Groups by gradient, before its sums.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Group *, 1>> gradients;
  /// Sums and casts between a gradient and its update, norm or accumulation. The flat group is
  /// reduced and cast instead.
  llvm::DenseSet<mlir::Operation *> absorbed;
  bool failedRead = false; // whether refuseRead() was called
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITREWRITER_H
