//===- StateUses.cpp - Checks how functions use their state ---------------===//
#include "dialects/nn/Ops/State.h"
#include "passes/sharding/Rebuild.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

/// The state that a value is, if it is an argument of the function.
static nn::StateOp stateOf(func::FuncOp function, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &function.getBody().front() ? nn::getState(argument)
                                                                        : nn::StateOp();
}

/// Whether the use reads the optimizer state or the gradient accumulator of a parameter as the flat
/// state of its unit can replace it.
static bool isOwnUse(func::FuncOp function, OpOperand &use, StringRef param) {
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(use.getOwner())) {
    nn::StateOp updated = stateOf(function, update.getParameterOperand().get());
    return updated && updated.getSymName() == param &&
           llvm::is_contained(update.getStateOperands(), &use);
  }
  auto accumulate = dyn_cast<GradientAccumulationOpInterface>(use.getOwner());
  return accumulate && accumulate.getParameter() == param &&
         accumulate.getEarlierSum() == use.get() && &accumulate.getGradientOperand() != &use;
}

static LogicalResult verifyUpdate(func::FuncOp function, OptimizerUpdateOpInterface update,
                                  OptimizerUpdateOpInterface first) {
  nn::StateOp param = stateOf(function, update.getParameterOperand().get());
  if (!param || param.getRole() != nn::Role::Param)
    return update->emitOpError("must update a parameter that is an argument");
  for (OpOperand *operand : update.getStateOperands()) {
    nn::StateOp moment = stateOf(function, operand->get());
    if (!moment || moment.getRole() != nn::Role::Moment || moment.getOf() != param.getSymName())
      return update->emitOpError("must have arguments as optimizer state, moments of '")
             << param.getSymName() << "'";
  }
  if (update->getName() != first->getName() || update->getNumOperands() != first->getNumOperands())
    return update->emitOpError("differs from the other updates: a step has one optimizer");
  return success();
}

LogicalResult verifyStateUses(func::FuncOp function, dist::MeshOp mesh) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("must have a body of one block");
  llvm::StringSet<> seen;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape())
      return function.emitError("argument ") << index << " is not a tensor of a static shape";
    auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    if (!symbol)
      continue;
    nn::StateOp state = nn::getState(argument);
    if (!state)
      return function.emitError("argument ")
             << index << " refers to " << symbol << ", which is not a state";
    auto sharding = state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
    RankedTensorType stored = state.getTensorType();
    if (sharding && sharding.getRank() == stored.getRank())
      stored = localType(stored, Layout::from(sharding), mesh);
    if (type != stored)
      return function.emitError("argument ") << index << " is of type " << type << ", its state "
                                             << symbol << " of type " << stored;
    if (!seen.insert(symbol.getValue()).second)
      return function.emitError("the state ") << symbol << " is an argument twice";
    std::optional<StringRef> param = state.getOf();
    if (!param)
      continue;
    for (OpOperand &use : argument.getUses())
      if (!isOwnUse(function, use, *param))
        return use.getOwner()->emitOpError("reads the state ")
               << symbol << " of parameter '" << *param
               << "', which only its update and its accumulation may read";
  }
  OptimizerUpdateOpInterface first;
  for (auto update : function.getOps<OptimizerUpdateOpInterface>()) {
    first = first ? first : update;
    if (failed(verifyUpdate(function, update, first)))
      return failure();
  }
  return success();
}

} // namespace sharding
} // namespace shale
