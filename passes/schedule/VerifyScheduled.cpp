//===- VerifyScheduled.cpp - Exit contract of schedule --------------------===//
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
    WalkResult result = getOperation().walk([](Collective collective) {
      if (isa<dist::StartOp>(collective->getParentOp()))
        return WalkResult::advance();
      collective->emitOpError("is not scheduled: it must stand in a dist.start");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
