//===- SplitCollectives.cpp - Splits collectives into start and wait ----===//
#include "dialects/dist/Dist.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_SPLITCOLLECTIVESPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

static void splitCollectives(Block &block) {
  SmallVector<CollectiveOpInterface> collectives;
  block.walk([&](CollectiveOpInterface op) {
    if (!isa<dist::StartOp>(op->getParentOp()))
      collectives.push_back(op);
  });
  OpBuilder builder(block.getParentOp()->getContext());
  for (CollectiveOpInterface op : collectives)
    dist::splitCollective(builder, op);
}

static void eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

namespace {
struct SplitCollectivesPass : public shale::impl::SplitCollectivesPassBase<SplitCollectivesPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(forEachBody(getOperation(), [&](Block &block) {
          splitCollectives(block);
          eraseUnused(block);
        })))
      signalPassFailure();
  }
};
} // namespace
