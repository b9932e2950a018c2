//===- VerifySharded.cpp - Checks that every value has a sharding ---------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/TensorLayout.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#include "passes/sharding/Passes.h.inc"

static LogicalResult verifyOp(Operation &op, dist::MeshOp mesh, bool inBlocks) {
  if (isa<GradientPartsOpInterface>(op))
    return success(); // have no rule: see Partition.cpp
  SmallVector<TensorLayout, 4> operands;
  for (Value operand : op.getOperands())
    operands.push_back(*getLayout(operand));
  return getAssignment(&op, getRule(&op), operands, mesh, inBlocks);
}

static LogicalResult verifySharded(func::FuncOp function, dist::MeshOp mesh) {
  if (failed(verifyHasLayouts(function)))
    return failure();
  bool inBlocks = hasBlocks(function, mesh);
  for (Operation &op : function.getBody().front().without_terminator())
    if (failed(verifyOp(op, mesh, inBlocks)))
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
