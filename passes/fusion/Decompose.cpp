//===- Decompose.cpp - Replaces ops by simpler ops ------------------------===//
#include "lib/Support/DeadOps.h"
#include "lib/Support/OpCopies.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Whether the op is replaced. With a null target, every decomposable op is.
bool isDecomposed(Operation *op, const Target *target) {
  return isa<DecomposableOpInterface>(op) &&
         !(target && (target->hasOwnKernel(op) || target->isLibraryCall(op)));
}

/// Replaces every such op below `root`, including new ones.
void decomposeAll(Operation *root, const Target *target) {
  SmallVector<Operation *> work;
  root->walk([&](Operation *op) {
    if (isDecomposed(op, target))
      work.push_back(op);
  });
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    CopyAttributes listener;
    listener.current = op;
    OpBuilder builder(op->getContext(), &listener);
    builder.setInsertionPoint(op);
    Operation *before = op->getPrevNode();
    SmallVector<Value> values = cast<DecomposableOpInterface>(op).decompose(builder);
    Operation *first = before ? before->getNextNode() : &op->getBlock()->front();
    for (Operation *made = first; made != op; made = made->getNextNode())
      if (isDecomposed(made, target))
        work.push_back(made);
    op->replaceAllUsesWith(values);
    op->erase();
  }
}

struct DecomposePass : shale::impl::DecomposePassBase<DecomposePass> {
  using DecomposePassBase::DecomposePassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    decomposeAll(getOperation(), all ? nullptr : target);
    getOperation()->walk([](Block *block) { eraseDeadOps(*block); });
  }
};

} // namespace
