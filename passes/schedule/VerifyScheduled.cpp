//===- VerifyScheduled.cpp - Exit contract of schedule --------------------===//
#include "dialects/mem/Mem.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

namespace {
struct VerifyScheduledPass : public shale::impl::VerifyScheduledPassBase<VerifyScheduledPass> {
  using Base::Base;
  void runOnOperation() override {
    WalkResult copies = getOperation().walk([](Operation *op) {
      if (!isa<mem::OffloadOp, mem::ReloadOp>(op))
        return WalkResult::advance();
      op->emitOpError("is not scheduled: it must be a mem.start and a mem.wait");
      return WalkResult::interrupt();
    });
    WalkResult result = getOperation().walk([](CollectiveOpInterface collective) {
      if (isa<dist::StartOp>(collective->getParentOp()))
        return WalkResult::advance();
      collective->emitOpError("is not scheduled: it must be inside a dist.start");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted() || copies.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
