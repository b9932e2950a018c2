//===- VerifyPrecision.cpp - Checks types against their policy ------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/precision/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYPRECISIONPASS
#include "passes/precision/Passes.h.inc"

namespace {

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// Rejects casts x -> wider -> x, which have no effect. x -> narrower -> x rounds and
/// is allowed.
LogicalResult verifyCast(nn::CastOp cast) {
  auto inner = cast.getInput().getDefiningOp<nn::CastOp>();
  if (inner && elementOf(inner.getInput()) == elementOf(cast.getResult()) &&
      is16BitFloat(elementOf(cast.getResult())) && elementOf(cast.getInput()).isF32())
    return cast.emitOpError("undoes the cast before it");
  return success();
}

LogicalResult verifyParameter(func::FuncOp function, BlockArgument argument, nn::StateOp state,
                              nn::PrecisionAttr policy) {
  if (argument.getType() != state.getTensorType())
    return function.emitError("argument ")
           << argument.getArgNumber() << " is " << argument.getType() << ", its state '"
           << state.getSymName() << "' " << state.getTensorType();
  if (state.getRole() != nn::Role::Param || !elementOf(argument).isF32() ||
      policy.getParam().isF32())
    return success();
  for (OpOperand &use : argument.getUses()) {
    auto update = dyn_cast<OptimizerUpdateOpInterface>(use.getOwner());
    if (update && &update.getParameterOperand() == &use)
      continue;
    auto cast = dyn_cast<nn::CastOp>(use.getOwner());
    if (!cast || elementOf(cast.getResult()) != policy.getParam())
      return use.getOwner()->emitOpError("uses parameter '")
             << state.getSymName() << "' in " << elementOf(argument) << ", not in "
             << policy.getParam();
  }
  return success();
}

LogicalResult verifyFunction(func::FuncOp function, nn::PrecisionAttr policy) {
  for (BlockArgument argument : function.getArguments())
    if (nn::StateOp state = nn::getState(argument))
      if (failed(verifyParameter(function, argument, state, policy)))
        return failure();
  for (Operation &op : function.getBody().front()) {
    if (auto cast = dyn_cast<nn::CastOp>(op))
      if (failed(verifyCast(cast)))
        return failure();
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
      if (Type type = elementOf(update.getGradientOperand().get()); type != policy.getReduce())
        return op.emitOpError("takes a gradient of ")
               << type << " where " << policy.getReduce() << " is reduced";
  }
  for (auto [i, operand] :
       llvm::enumerate(function.getBody().front().getTerminator()->getOperands()))
    if (auto role = function.getResultAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
        role && is16BitFloat(elementOf(operand)))
      return function.emitError("metric ") << i << " is " << operand.getType() << ", not f32";
  return success();
}

struct VerifyPrecisionPass : impl::VerifyPrecisionPassBase<VerifyPrecisionPass> {
  using VerifyPrecisionPassBase::VerifyPrecisionPassBase;
  void runOnOperation() final {
    auto policy = getOperation()->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
    if (!policy)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          failed(verifyFunction(function, policy)))
        return signalPassFailure();
  }
};

} // namespace

} // namespace shale
