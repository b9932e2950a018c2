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

static LogicalResult verifyUpdate(func::FuncOp function, OptimizerUpdateOpInterface update) {
  nn::StateOp param = stateOf(function, update.getParameterOperand().get());
  if (!param || param.getRole() != nn::Role::Param)
    return update->emitOpError("must update a parameter that is an argument");
  for (OpOperand *operand : update.getStateOperands()) {
    nn::StateOp moment = stateOf(function, operand->get());
    if (!moment || moment.getRole() != nn::Role::Moment || moment.getOf() != param.getSymName())
      return update->emitOpError("must have arguments as optimizer state, moments of '")
             << param.getSymName() << "'";
  }
  return success();
}

/// Returns the state of which an update or an accumulation makes this new value, else null.
static nn::StateOp madeFor(func::FuncOp function, OpResult value) {
  unsigned number = value.getResultNumber();
  if (auto update = dyn_cast<OptimizerUpdateOpInterface>(value.getOwner()))
    return stateOf(function, number == 0 ? update.getParameterOperand().get()
                                         : update.getStateOperands()[number - 1]->get());
  return {};
}

/// A new value of a state must be what the update of that state makes.
static LogicalResult verifyResults(func::FuncOp function) {
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    auto value = dyn_cast<OpResult>(operand.get());
    nn::StateOp made = value ? madeFor(function, value) : nn::StateOp();
    if (made && (!symbol || symbol.getValue() != made.getSymName()))
      return function.emitError("result ")
             << index << " is the new value of state '" << made.getSymName()
             << "', which its nn.state does not name";
  }
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
    if (sharding && !sharding.isContiguous() && state.getRole() != nn::Role::Moment)
      return state.emitError("must be split into contiguous parts; got ") << sharding;
    RankedTensorType stored = state.getTensorType();
    if (sharding && sharding.getRank() == stored.getRank())
      stored = localType(stored, TensorLayout::from(sharding), mesh);
    if (type != stored)
      return function.emitError("argument ") << index << " is of type " << type << ", its state "
                                             << symbol << " of type " << stored;
    if (!seen.insert(symbol.getValue()).second)
      return function.emitError("the state ") << symbol << " is an argument twice";
  }
  for (auto update : function.getOps<OptimizerUpdateOpInterface>())
    if (failed(verifyUpdate(function, update)))
      return failure();
  return verifyResults(function);
}

} // namespace sharding
} // namespace shale
