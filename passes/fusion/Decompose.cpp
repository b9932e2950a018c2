//===- Decompose.cpp - Ops in simpler ops ---------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

bool isDecomposed(Operation *op, bool all) {
  return isa<Decomposable>(op) && (all || !isa<OwnKernel>(op));
}

/// Replaces every op below `root`; new ops are looked at again.
void decomposeAll(Operation *root, bool all) {
  SmallVector<Operation *> work;
  root->walk([&](Operation *op) {
    if (isDecomposed(op, all))
      work.push_back(op);
  });
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    OpBuilder builder(op);
    Operation *before = op->getPrevNode();
    SmallVector<Value> values = cast<Decomposable>(op).decompose(builder);
    Operation *first = before ? before->getNextNode() : &op->getBlock()->front();
    for (Operation *made = first; made != op; made = made->getNextNode())
      if (isDecomposed(made, all))
        work.push_back(made);
    op->replaceAllUsesWith(values);
    op->erase();
  }
}

void eraseDead(Operation *root) {
  for (Region &region : root->getRegions())
    for (Block &block : region)
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
        eraseDead(&op);
        if (isOpTriviallyDead(&op))
          op.erase();
      }
}

struct DecomposePass : shale::impl::DecomposePassBase<DecomposePass> {
  using DecomposePassBase::DecomposePassBase;
  void runOnOperation() override {
    decomposeAll(getOperation(), all);
    eraseDead(getOperation());
  }
};

} // namespace
