//===- AssignOptimizers.cpp - Optimizers by parameter ---------------------===//
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ASSIGNOPTIMIZERSPASS
#include "passes/annotate/Passes.h.inc"

static bool isMatmulOp(Operation *op) {
  auto rule = dyn_cast<ShardingRuleOpInterface>(op);
  return rule && isMatmul(rule.getShardingRule());
}

/// Whether the op is a cast, a transpose, a view: it has one operand and one result.
static bool passesOn(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1;
}

/// Calls fn for each use of the value, directly or through ops of one operand.
static void forEachUse(Value value, llvm::function_ref<void(Operation *)> fn) {
  for (Operation *user : value.getUsers())
    if (passesOn(user))
      forEachUse(user->getResult(0), fn);
    else
      fn(user);
}

/// Returns the parameter that a value is, through ops of one operand, or null.
static nn::StateOp parameterOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!passesOn(op))
      return {};
    value = op->getOperand(0);
  }
  nn::StateOp state = nn::getState(cast<BlockArgument>(value));
  return state && state.getRole() == nn::Role::Param ? state : nn::StateOp();
}

/// Returns the parameters of the last matmuls before the logits, or, where no loss is one of rows,
/// before the results of the function.
static llvm::DenseSet<Operation *> findHeads(func::FuncOp function) {
  SmallVector<Value> work;
  for (auto loss : function.getOps<RowLossOpInterface>())
    work.push_back(loss.getLogits());
  if (work.empty())
    llvm::append_range(work, function.getBody().front().getTerminator()->getOperands());
  llvm::DenseSet<Operation *> heads;
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(value).second)
      continue;
    bool ends = false;
    if (isMatmulOp(op))
      for (Value operand : op->getOperands())
        if (nn::StateOp state = parameterOf(operand)) {
          heads.insert(state);
          ends = true;
        }
    if (!ends)
      llvm::append_range(work, op->getOperands());
  }
  return heads;
}

/// Returns the parameters that are matrices of hidden layers.
static llvm::DenseSet<Operation *> findHidden(ModuleOp module) {
  llvm::DenseSet<Operation *> hidden;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    llvm::DenseSet<Operation *> heads = findHeads(function);
    for (BlockArgument argument : function.getArguments()) {
      nn::StateOp state = parameterOf(argument);
      if (!state || state.getTensorType().getRank() != 2 || heads.contains(state))
        continue;
      bool multiplied = false, table = false;
      forEachUse(argument, [&](Operation *user) {
        multiplied |= isMatmulOp(user);
        table |= isa<IndexUserOpInterface>(user);
      });
      if (multiplied && !table)
        hidden.insert(state);
    }
  }
  return hidden;
}

namespace {
struct AssignOptimizersPass : impl::AssignOptimizersPassBase<AssignOptimizersPass> {
  using AssignOptimizersPassBase::AssignOptimizersPassBase;
  void runOnOperation() final {
    if (failed(assign(getOperation())))
      signalPassFailure();
  }

  LogicalResult assign(ModuleOp module) {
    const nn::Optimizer *main = optimizer;
    module->setAttr(nn::kOptimizerAttr, StringAttr::get(&getContext(), main->name));
    if (!main->rest) {
      if (optimizerFor.entries.empty())
        return success();
      return module.emitError("optimizer-for: optimizer '")
             << main->name
             << "' updates all parameters; --optimizer muon leaves some to another one";
    }
    const nn::Optimizer &rest = main->rest->optimizer();
    llvm::DenseSet<Operation *> hidden = findHidden(module), chosen;
    for (const auto &[regex, name] : optimizerFor.entries)
      if (failed(choose(module, *main, regex, name, hidden, chosen)))
        return failure();
    report(module, *main, rest, hidden);
    auto attr = StringAttr::get(&getContext(), rest.name);
    for (auto state : module.getOps<nn::StateOp>())
      if (state.getRole() == nn::Role::Param && !hidden.contains(state))
        state->setAttr(nn::kOptimizerAttr, attr);
    return success();
  }

  /// Applies one entry. `chosen` are the parameters of earlier ones.
  LogicalResult choose(ModuleOp module, const nn::Optimizer &main, StringRef regex, StringRef name,
                       llvm::DenseSet<Operation *> &hidden, llvm::DenseSet<Operation *> &chosen) {
    const nn::Optimizer &rest = main.rest->optimizer();
    if (name != main.name && name != rest.name)
      return module.emitError("optimizer-for: '")
             << regex << "=" << name << "': with --optimizer " << main.name << " a parameter has "
             << main.name << " or " << rest.name;
    auto matched = matchParameters(module, regex, "optimizer-for");
    if (failed(matched))
      return failure();
    for (nn::StateOp state : *matched) {
      bool takes = name == main.name;
      if (!chosen.insert(state).second && takes != hidden.contains(state))
        return module.emitError("optimizer-for: '")
               << regex << "' matches parameter '" << state.getSymName()
               << "', to which another entry gives " << (takes ? rest.name : main.name);
      if (takes && state.getTensorType().getRank() != 2)
        return module.emitError("optimizer-for: parameter '")
               << state.getSymName() << "' of " << state.getTensorType() << " is no matrix, and "
               << main.name << " updates matrices only: leave it to " << rest.name;
      if (takes)
        hidden.insert(state);
      else
        hidden.erase(state);
    }
    return success();
  }

  void report(ModuleOp module, const nn::Optimizer &main, const nn::Optimizer &rest,
              const llvm::DenseSet<Operation *> &hidden) {
    std::string lists[2];
    for (auto state : module.getOps<nn::StateOp>())
      if (state.isTrainedParameter()) {
        std::string &list = lists[hidden.contains(state) ? 0 : 1];
        list += (list.empty() ? "" : ", ") + state.getSymName().str();
      }
    auto text = [](const std::string &list) { return list.empty() ? "nothing" : list; };
    emitDecision(
        module.getLoc(), "assign-optimizers",
        (main.name + ": " + text(lists[0]) + "; " + rest.name + ": " + text(lists[1])).str());
  }
};
} // namespace

} // namespace shale
