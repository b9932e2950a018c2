//===- FlatFunction.h - A function on flat groups, while it is built ------===//
#ifndef SHALE_PASSES_SHARDING_FLATFUNCTION_H
#define SHALE_PASSES_SHARDING_FLATFUNCTION_H

#include "mlir/IR/IRMapping.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/UnitTraining.h"
#include "passes/sharding/Units.h"
#include <functional>

namespace shale {
inline namespace sharding {

/// The arguments that hold the states of a group. Those that the function does not need are null.
struct GroupArguments {
  mlir::Value atRest; ///< the parameters
  mlir::Value copy;
  mlir::Value accumulator;
  llvm::SmallVector<mlir::Value> moments;
  llvm::SmallVector<mlir::Value, 2> residuals, pendingResiduals;
};

/// A function that takes flat groups instead of the parameters and their states, while it is built
/// from an old one: its arguments, its builder, and its values by those of the old function.
/// Parameters are views of the groups, which are gathered at their first use.
class FlatFunction {
public:
  /// Creates the function with its arguments. Arguments that are not states keep their order. Flat
  /// states take the place of the first state: parameters group by group, gradient accumulators,
  /// residuals, then optimizer state by role.
  FlatFunction(mlir::func::FuncOp old, Units &units, const UnitTraining &training);
  FlatFunction(const FlatFunction &) = delete;

  mlir::func::FuncOp getOld() { return old; }
  mlir::OpBuilder &getBuilder() { return builder; }
  const GroupArguments &argumentsOf(const Group &group) const { return groupArguments[group]; }
  /// Returns the group of a parameter, an argument of the old function.
  Group &groupOf(mlir::Value parameter) { return *parameters.lookup(parameter).first; }
  /// Whether a state is not part of a flat group.
  bool isOutside(mlir::FlatSymbolRefAttr symbol);

  /// Returns the value that takes the place of `value`, of the old function. Builds the view of a
  /// parameter, and ops that are absorbed but read in another way, too.
  mlir::Value lookup(mlir::Value value);
  void map(mlir::Value value, mlir::Value made) { mapping.map(value, made); }
  /// Copies an op of the old function.
  void copy(mlir::Operation *op);

  /// Builds the function by `rebuild`, op by op in order, and erases the old one. Fails after an
  /// error, as where an op reads optimizer state that is flat, and erases the new function then.
  mlir::LogicalResult build(llvm::function_ref<mlir::LogicalResult(mlir::Operation *)> rebuild);
  /// Ends the function with a return of `results`.
  void returnFrom(mlir::Location loc, mlir::ValueRange results,
                  llvm::ArrayRef<mlir::DictionaryAttr> attrs);
  /// Returns the attributes of an argument or result that is a state.
  mlir::DictionaryAttr stateAttrs(nn::StateOp state);

private:
  /// An argument, and what takes its value.
  struct Argument {
    mlir::RankedTensorType type;
    mlir::DictionaryAttr attrs;
    mlir::Location loc;
    std::function<void(mlir::Value)> bind;
  };

  std::vector<Argument> makeFlatArguments(const UnitTraining &training);
  void create(llvm::ArrayRef<Argument> arguments);
  mlir::Value wholeOf(Group &group);
  mlir::Value view(Group &group, int64_t place);
  mlir::Value refuseRead(mlir::BlockArgument argument);
  bool isViewCast(mlir::Operation *op);

  mlir::func::FuncOp old, fresh;
  Units &units;
  CopyUnsharded listener;
  mlir::OpBuilder builder;
  GroupMap<GroupArguments> groupArguments;
  GroupMap<mlir::Value> wholes; ///< what views read; null before the first use
  mlir::IRMapping mapping;
  /// The group of each old argument that is a parameter or a buffer, and its place in the group.
  llvm::DenseMap<mlir::Value, std::pair<Group *, int64_t>> parameters;
  bool failedRead = false; ///< whether refuseRead() was called
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_FLATFUNCTION_H
