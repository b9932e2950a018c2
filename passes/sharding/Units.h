//===- Units.h - How parameters are stored --------------------------------===//
//
// Which parameter is in which group of which unit, at which offset, and which
// flat states hold it: decided once for the module.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_UNITS_H
#define SHALE_PASSES_SHARDING_UNITS_H

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Layout.h"
#include "llvm/ADT/StringMap.h"

namespace shale {
inline namespace sharding {

/// A flat state that is to replace the states of a group's parameters.
struct FlatState {
  nn::StateOp op;
  bool sliced; // at rest each rank has its slice of it
};

struct Group {
  dist::UnitOp unit;
  int64_t index = 0; // in its unit
  dist::GroupAttr attr;
  /// Parameters and their layouts at use, as the segments are.
  std::vector<nn::StateOp> params;
  std::vector<Layout> layouts;
  FlatState param;
  /// What is used where the parameters are kept wider and nobody gathers them: a
  /// whole copy in the wire type; null if there is none.
  FlatState copy = {nullptr, false};
  /// Optimizer state, in the order of the update's operands.
  std::vector<FlatState> moments;
  /// The sum of the gradients of a step's micro-batches; null where there is one.
  FlatState accumulator{nullptr, false};
  /// Data axes over which each rank has a sum of its own in the accumulator;
  /// known once a function has been partitioned.
  std::optional<AxisList> partialAxes;
};

/// What the update of a trained parameter says about it.
struct TrainedParameter {
  double decay = 1;
  llvm::SmallVector<nn::StateOp> moments;
};

class Units {
public:
  /// Groups the parameters of the module; declares `dist.unit`s and flat states;
  /// fails after an error.
  static mlir::FailureOr<Units> build(mlir::ModuleOp module,
                                      dist::MeshOp mesh);

  dist::Strategy strategy = dist::Strategy::None;
  /// The axis over which groups are split at rest; empty where there are not
  /// two ranks to split over.
  llvm::StringRef axis;
  int64_t axisSize = 1;
  bool keepGathered = false;
  /// Gradients of a step's micro-batches are summed whole, and reduced once.
  bool reduceOnce = false;
  std::vector<Group> groups;

  /// The group of a parameter or buffer and its place in it.
  std::pair<Group *, int64_t> find(llvm::StringRef param);
  /// Whether uses read what a gather (over one rank: a cast) made of the shard.
  bool isGathered(const Group &group) const {
    return group.param.sliced
               ? !group.copy.op
               : dist::splitsParameters(strategy) && group.attr.getWire() != group.attr.getType();
  }
  /// The number of elements that a rank has of a flat state at rest.
  int64_t localCount(const Group &group, const FlatState &state) const {
    return group.attr.getCount() / (state.sliced ? axisSize : 1);
  }

private:
  llvm::StringMap<std::pair<int64_t, int64_t>> places;
  friend class UnitsBuilder;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_UNITS_H
