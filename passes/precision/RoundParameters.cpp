//===- RoundParameters.cpp - Stochastic rounding of new parameters --------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Rounding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/precision/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ROUNDPARAMETERSPASS
#include "passes/precision/Passes.h.inc"

namespace {

/// Segments of bf16 in flat groups begin at multiples of this. With numbers that do, too, those of
/// neighbours in a group follow one another.
constexpr int64_t kAlignment = 32;

/// Returns the argument of the function with the role, which is added if there is none.
Value randomArgument(func::FuncOp function, nn::Role role) {
  for (BlockArgument argument : function.getArguments())
    if (auto own = function.getArgAttrOfType<nn::RoleAttr>(argument.getArgNumber(), nn::kRoleAttr);
        own && own.getValue() == role)
      return argument;
  Builder b(function.getContext());
  auto name = b.getStringAttr("random." + nn::stringifyRole(role));
  auto attrs =
      b.getDictionaryAttr({b.getNamedAttr(nn::kRoleAttr, nn::RoleAttr::get(b.getContext(), role)),
                           b.getNamedAttr(nn::kNameAttr, name)});
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, RankedTensorType::get({}, b.getI64Type()), attrs,
                                NameLoc::get(name));
  return function.getArgument(index);
}

struct RoundParametersPass : impl::RoundParametersPassBase<RoundParametersPass> {
  using RoundParametersPassBase::RoundParametersPassBase;

  /// Numbers the elements of all parameters.
  LogicalResult number() {
    const nn::Optimizer *main = nn::getOptimizer(getOperation());
    int64_t end = 0;
    for (auto state : getOperation().getOps<nn::StateOp>()) {
      if (state.getRole() != nn::Role::Param)
        continue;
      int64_t block = main ? nn::getOptimizer(state, *main).stateBlock : 0;
      end = llvm::alignTo(end, std::lcm(kAlignment, std::max<int64_t>(block, 1)));
      numbers[state.getSymName()] = end;
      if (nn::tensorBytes(state.getTensorType()) < 0 ||
          llvm::AddOverflow(end, state.getTensorType().getNumElements(), end) ||
          end > nn::kMostRounded)
        return state.emitError("is beyond the 2^48 elements of parameters that can be rounded "
                               "stochastically");
    }
    return success();
  }

  /// Finds the updates of parameters of bf16.
  LogicalResult find(func::FuncOp function) {
    for (auto update : function.getOps<nn::RoundedUpdateOpInterface>()) {
      Value param =
          cast<OptimizerUpdateOpInterface>(update.getOperation()).getParameterOperand().get();
      Type element = cast<RankedTensorType>(param.getType()).getElementType();
      if (element.isF16())
        return update->emitError("stochastic rounding is for parameters of bf16, not f16: "
                                 "--param-rounding nearest, or --param-dtype bf16");
      if (!element.isBF16())
        continue;
      auto argument = dyn_cast<BlockArgument>(param);
      nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
      if (!state)
        return update->emitError("updates a value that is not the state of a parameter");
      updates.push_back({update, numbers.lookup(state.getSymName())});
    }
    return success();
  }

  void round() {
    // All functions have the same inputs.
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (nn::Role role : {nn::Role::Seed, nn::Role::Step})
        if (!function.isExternal())
          (void)randomArgument(function, role);
    for (auto [update, number] : updates) {
      auto function = update->getParentOfType<func::FuncOp>();
      update.roundStochastically(randomArgument(function, nn::Role::Seed),
                                 randomArgument(function, nn::Role::Step), number);
    }
  }

  void runOnOperation() final {
    numbers.clear();
    updates.clear();
    if (failed(number()))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(find(function)))
        return signalPassFailure();
    if (!updates.empty())
      round();
  }

private:
  llvm::StringMap<int64_t> numbers; ///< of each parameter's first element
  SmallVector<std::pair<nn::RoundedUpdateOpInterface, int64_t>> updates;
};

} // namespace

} // namespace shale
