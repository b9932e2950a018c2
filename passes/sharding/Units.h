//===- Units.h - How parameters are stored --------------------------------===//
//
// Assigns each parameter to a group of a unit, at an offset, and declares the flat
// states that hold the groups: decided once for the module.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_UNITS_H
#define SHALE_PASSES_SHARDING_UNITS_H

#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Support/PrintIR.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Storage.h"
#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/StringMap.h"

namespace shale {
inline namespace sharding {

/// A flat state that replaces the states of a group's parameters.
struct FlatState {
  nn::StateOp op;
  mlir::StringAttr axis; ///< the axis that splits the state at rest; null: each rank has all
  /// The offset of each parameter's state, in the order of the segments. Empty if the state has the
  /// parameters' shape: the offsets are then those of the segments.
  std::vector<int64_t> places = {};
};

/// Parameters of a unit that are stored in one flat state.
struct Group {
  dist::UnitOp unit;
  int64_t index = 0; // within its unit
  dist::GroupAttr attr;
  /// Parameters in the order of the segments.
  std::vector<nn::StateOp> params;
  FlatState param;
  /// A whole copy of the parameters in the wire type, which uses read if the
  /// parameters are stored in a wider type and not gathered; null if there is none.
  FlatState copy = {nullptr, nullptr};
  /// The part of its gradients that a rank has not sent yet: one state for each collective that
  /// quantizes. Declared by the first function that reduces gradients.
  std::vector<nn::StateOp> residuals;
  /// If each micro-batch is reduced, accumulators of the new residuals, which replace the old ones
  /// unless the step is left out; else empty.
  std::vector<nn::StateOp> pendingResiduals;
  /// Optimizer state, in the order of the update's operands.
  std::vector<FlatState> moments;
  /// The sum of the gradients of a step's micro-batches; null if there is only one
  /// micro-batch.
  FlatState accumulator{nullptr, nullptr};
  /// Axes over which the packed gradients are partial: each rank has its own
  /// sum. Set when the first function with gradients has been partitioned.
  std::optional<AxisList> partialAxes;

  dist::StorageAttr storage() const { return attr.getStorage(); }
  /// The axis along which a rank updates only its slice of the parameters; null: all.
  mlir::StringAttr updateAxis() const { return storage().getUpdate(); }
  /// Whether uses read the result of a gather of the shard (over one rank: a cast).
  bool isGathered() const { return storage().getHow() == dist::Use::Gathered; }
  /// The unit's location, with the unit's name.
  mlir::Location getLoc() { return withValueName(unit.getLoc(), unit.getSymName()); }
};

/// Properties of a trained parameter, read from its update.
struct TrainedParameter {
  UpdateFactorsAttrInterface factors; // null: all are 1
  llvm::SmallVector<nn::StateOp> moments;
  bool elementwiseState = true; // the moments have the parameter's shape
  const nn::Optimizer *optimizer = nullptr;
};

/// Whether the state is in no flat group: it belongs to no parameter and is whole on every rank.
bool isOutsideUnits(nn::StateOp state);

/// The groups in which a module stores its parameters and buffers.
class Units {
public:
  /// Groups the parameters of the module and declares `dist.unit`s and flat states.
  /// Fails after an error.
  static mlir::FailureOr<Units> build(mlir::ModuleOp module, dist::MeshOp mesh);

  StoragePolicy policy;
  std::vector<Group> groups;

  /// Returns the group of a parameter or buffer and its index in it; a null group if
  /// there is none.
  std::pair<Group *, int64_t> find(llvm::StringRef param);
  /// Returns the number of elements of a group that a rank updates.
  int64_t updatedCount(const Group &group) const {
    return group.attr.getCount() / ranksAlong(group.updateAxis());
  }
  /// Returns the number of elements of a flat state that a rank holds at rest.
  int64_t localCount(const FlatState &state) const {
    nn::StateOp op = state.op;
    return op.getTensorType().getNumElements() / ranksAlong(state.axis);
  }

private:
  int64_t ranksAlong(mlir::StringAttr axis) const {
    return axis ? dist::MeshOp(mesh).getSize(axis) : 1;
  }

  dist::MeshOp mesh;
  llvm::StringMap<std::pair<int64_t, int64_t>> places;
  friend class UnitsBuilder;
};

/// A value for each group of a module.
template <typename T> class GroupMap {
public:
  explicit GroupMap(const Units &units) : first(units.groups.data()), values(units.groups.size()) {}

  T &operator[](const Group &group) { return values[&group - first]; }
  const T &operator[](const Group &group) const { return values[&group - first]; }

private:
  const Group *first;
  std::vector<T> values;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITS_H
