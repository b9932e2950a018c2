//===- VerifyStep.cpp - Checks that a module holds a whole training step --===//
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/autodiff/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

LogicalResult verifyPhases(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator())
    if (!op.hasAttr(nn::kPhaseAttr))
      return op.emitError("has no nn.phase");
  return success();
}

/// Checks the arguments' states against their declarations and returns their names.
FailureOr<llvm::StringSet<>> verifyArguments(ModuleOp module, func::FuncOp function) {
  llvm::StringSet<> names;
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
    if (!symbol) {
      if (!function.getArgAttr(i, nn::kRoleAttr))
        return function.emitError("argument ") << i << " has neither nn.state nor nn.role";
      continue;
    }
    nn::StateOp state = nn::getState(argument);
    if (!state || state.getTensorType() != argument.getType())
      return function.emitError("argument ") << i << " is not of the type of its state " << symbol;
    if (!names.insert(symbol.getValue()).second)
      return function.emitError("the state ") << symbol << " is an argument twice";
  }
  return names;
}

LogicalResult verifyResults(ModuleOp module, func::FuncOp function,
                            const llvm::StringSet<> &arguments) {
  llvm::StringSet<> states, metrics;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr)) {
      if (!arguments.contains(symbol.getValue()) || !states.insert(symbol.getValue()).second)
        return function.emitError("the state ")
               << symbol << " is a result twice or without an argument";
    } else if (auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr)) {
      metrics.insert(name.getValue());
    } else {
      return function.emitError("result ") << i << " has no name";
    }
  }
  for (const char *name : {"loss", "grad_norm", "enable"})
    if (!metrics.contains(name))
      return function.emitError("the metric ") << name << " is not a result";
  for (auto state : module.getOps<nn::StateOp>()) {
    if (state.getRole() == nn::Role::GradAccumulator)
      continue; // checked by verifyAccumulate
    bool changes = state.isTrainedParameter() ||
                   (state.getRole() != nn::Role::Param && state.getRole() != nn::Role::Buffer &&
                    state.getRole() != nn::Role::Divided);
    if (changes != states.contains(state.getSymName()))
      return state.emitError(changes ? "is to be updated, but @step does not "
                                       "return it"
                                     : "must not change, but @step returns it");
  }
  return success();
}

/// Whether a micro-batch that is not the last of its step changes the state.
static bool changesByMicrobatch(nn::StateOp state) {
  return state.getRole() == nn::Role::GradAccumulator || state.getRole() == nn::Role::Running;
}

/// Checks that a function that accumulates returns exactly the accumulators and running statistics.
LogicalResult verifyAccumulate(ModuleOp module, func::FuncOp function,
                               const llvm::StringSet<> &arguments) {
  llvm::StringSet<> returned;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr);
    nn::StateOp state = nn::getState(module, symbol);
    if (!state || !changesByMicrobatch(state) || !arguments.contains(symbol.getValue()) ||
        !returned.insert(symbol.getValue()).second)
      return function.emitError("result ")
             << i << " must be an accumulator or running statistic that is an argument, once";
  }
  for (auto state : module.getOps<nn::StateOp>())
    if (changesByMicrobatch(state) && !returned.contains(state.getSymName()))
      return state.emitError("@") << function.getSymName() << " does not return it";
  return success();
}

struct VerifyStepPass : impl::VerifyStepPassBase<VerifyStepPass> {
  LogicalResult verify() {
    ModuleOp module = getOperation();
    if (auto forward = module.lookupSymbol<func::FuncOp>("forward"))
      return forward.emitError("@forward is still there");
    struct Wanted {
      const char *name;
      bool updates, accumulates;
    };
    SmallVector<Wanted> wanted{{"step", true, false}, {"evaluate", false, false}};
    auto count = module->getAttrOfType<IntegerAttr>(nn::kAccumulateAttr);
    if (count)
      wanted.push_back({"accumulate_first", false, true});
    if (count && count.getInt() > 2)
      wanted.push_back({"accumulate", false, true});
    for (auto [name, updates, accumulates] : wanted) {
      auto function = module.lookupSymbol<func::FuncOp>(name);
      if (!function || function.isExternal() || !function.getBody().hasOneBlock())
        return module.emitError("there is no function @") << name << " of one block";
      auto states = verifyArguments(module, function);
      if (failed(states) || failed(verifyPhases(function)))
        return failure();
      if (updates && failed(verifyResults(module, function, *states)))
        return failure();
      if (accumulates && failed(verifyAccumulate(module, function, *states)))
        return failure();
    }
    return success();
  }

  void runOnOperation() override {
    if (failed(verify()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace shale
