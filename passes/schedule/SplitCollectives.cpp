//===- SplitCollectives.cpp - Splits collectives into start and wait ----===//
#include "dialects/dist/Dist.h"
#include "lib/Support/DeadOps.h"
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

namespace {
struct SplitCollectivesPass : public shale::impl::SplitCollectivesPassBase<SplitCollectivesPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(forEachBody(getOperation(), [&](Block &block) {
          splitCollectives(block);
          eraseDeadOps(block);
        })))
      signalPassFailure();
  }
};
} // namespace
