//===- VerifySharded.cpp - Checks that every value has a sharding ---------===//
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Layout.h"
#include "passes/sharding/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#include "passes/sharding/Passes.h.inc"

static LogicalResult verifyOp(Operation &op, dist::MeshOp mesh) {
  SmallVector<Layout, 4> operands, results;
  for (Value operand : op.getOperands()) {
    std::optional<Layout> layout = getLayout(operand);
    if (!layout)
      return success(); // reported at the definition of the value
    operands.push_back(*layout);
  }
  for (OpResult result : op.getResults()) {
    std::optional<Layout> layout = getLayout(result);
    if (!layout)
      return op.emitOpError("result ") << result.getResultNumber() << " has no sharding";
    results.push_back(*layout);
  }
  if (isa<OptimizerUpdateOpInterface, ElementReductionOpInterface, nn::AccumulateOp>(op))
    return success(); // have no rule: see Partition.cpp
  return recoverAssignment(&op, getRule(&op), operands, results, mesh);
}

static LogicalResult verifySharded(func::FuncOp function, dist::MeshOp mesh) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("must have one block to be partitioned");
  for (BlockArgument argument : function.getArguments())
    if (isa<RankedTensorType>(argument.getType()) && !getLayout(argument))
      return function.emitError("argument ") << argument.getArgNumber() << " has no sharding";
  for (Operation &op : function.getBody().front().without_terminator())
    if (failed(verifyOp(op, mesh)))
      return failure();
  return success();
}

namespace {
struct VerifyShardedPass : impl::VerifyShardedPassBase<VerifyShardedPass> {
  using VerifyShardedPassBase::VerifyShardedPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::getMesh(module);
    if (!mesh) {
      module.emitError("has no mesh");
      return signalPassFailure();
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(verifySharded(function, mesh)))
        return signalPassFailure();
  }
};
} // namespace

} // namespace shale
