//===- Partitioner.h - Rebuilds a function for one rank -------------------===//
#ifndef SHALE_PASSES_SHARDING_PARTITIONER_H
#define SHALE_PASSES_SHARDING_PARTITIONER_H

#include "passes/sharding/Reshard.h"
#include "passes/sharding/Units.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {
inline namespace sharding {

/// Rebuilds one function with the types of one rank's part, op by op in order.
class Partitioner {
public:
  Partitioner(mlir::func::FuncOp function, dist::MeshOp mesh, Units &units);

  /// Replaces the function. Fails after an error.
  mlir::LogicalResult run();

private:
  /// A value of the new function: one rank's part.
  struct Local {
    mlir::Value value;
    Layout layout;
  };
  /// A group's values in this function.
  struct GroupValues {
    mlir::Value atRest; // the argument of the parameters
    mlir::Value whole;
    llvm::SmallVector<mlir::Value> moments;
    llvm::SmallVector<OptimizerUpdateOpInterface> updates; // by parameter; null if there is none
    llvm::SmallVector<mlir::Value> gradients;              // by parameter, of this micro-batch
    int64_t gradientsToCome = 0, updatesToCome = 0;
    /// Whether gradients are summed over micro-batches: they are added to the
    /// accumulator (an argument), or, with `begins`, start the sum.
    bool accumulates = false, begins = false;
    mlir::Value accumulator;
    mlir::Value packed;                     // not yet reduced
    mlir::Value gradient;                   // reduced; what the update reads
    mlir::Value newCopy;                    // copy of the new parameters, or null
    llvm::SmallVector<mlir::Value> results; // new parameter, new moments
  };
  /// Copies the attributes (phase, scope, policies) of the op that is being
  /// partitioned to the ops built for it, except for its shardings.
  struct Listener : mlir::OpBuilder::Listener {
    void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;
    mlir::Operation *current = nullptr;
  };

  // Partition.cpp
  mlir::LogicalResult collectUpdates();
  mlir::Value beforeRounding(mlir::Value gradient);
  void makeSignature();
  mlir::LogicalResult partitionOp(mlir::Operation *op);
  bool isViewCast(mlir::Operation *op);
  bool isScalarState(mlir::FlatSymbolRefAttr symbol);
  mlir::LogicalResult partitionReturn(mlir::Operation *op);
  Local local(mlir::Value old);
  mlir::Value converted(mlir::Value old, const Layout &to);
  mlir::Value view(Group &group, int64_t param);
  GroupValues &valuesOf(Group &group) { return groups[&group - units.groups.data()]; }

  // Gradients.cpp
  mlir::LogicalResult noteGradients(mlir::Operation *op);
  mlir::LogicalResult packGradients(Group &group);
  mlir::LogicalResult reduceGradients(Group &group);
  mlir::LogicalResult reduceAllGradients();
  mlir::Value addToAccumulator(Group &group, mlir::Value now);
  mlir::Value castTo(mlir::Value value, mlir::Type element);
  mlir::LogicalResult partitionReduction(mlir::Operation *op);
  mlir::LogicalResult partitionUpdate(OptimizerUpdateOpInterface update);
  mlir::LogicalResult buildUpdate(Group &group);
  bool isSliced(const Group &group) const {
    return !group.moments.empty() && group.moments.front().sliced;
  }

  mlir::func::FuncOp function, fresh;
  dist::MeshOp mesh;
  Units &units;
  AxisList dataAxes;
  Listener listener;
  mlir::OpBuilder builder;
  std::vector<GroupValues> groups;
  llvm::DenseMap<mlir::Value, Local> locals;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> cache;
  llvm::DenseMap<mlir::Value, std::pair<Group *, int64_t>> states; // by old argument
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Group *, 1>>
      gradients; // groups by gradient before rounding
  /// Casts between a gradient and its update, norm or sum. The flat group is cast instead.
  llvm::DenseSet<mlir::Operation *> roundings;
  llvm::DenseMap<mlir::Value, mlir::Value> views; // by old argument
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_PARTITIONER_H
