//===- VerifyPlan.cpp - Exit contract of plan -----------------------------===//
#include "passes/schedule/Passes.h"
#include "lib/Analysis/ProgramLiveness.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

/// Fails where two buffers of the arena are live at once and overlap.
static LogicalResult verifyOverlap(ProgramLiveness &liveness) {
  SmallVector<LiveBuffer *> active;
  for (LiveBuffer &buffer : liveness.buffers) {
    if (buffer.op.getSpace() != rt::Space::Arena)
      continue;
    llvm::erase_if(active, [&](LiveBuffer *other) { return other->end < buffer.begin; });
    for (LiveBuffer *other : active) {
      rt::BufferOp a = buffer.op, b = other->op;
      if (a.getHost() == b.getHost() && a.getOffset() < b.getOffset() + other->bytes && b.getOffset() < a.getOffset() + buffer.bytes) {
        InFlightDiagnostic diag = a.emitOpError() << "'" << a.getName() << "' shares bytes with a buffer that is live at once";
        diag.attachNote(b.getLoc()) << "'" << b.getName() << "' at offset " << b.getOffset();
        return diag;
      }
    }
    active.push_back(&buffer);
  }
  return success();
}

namespace {
struct VerifyPlanPass : public shale::impl::VerifyPlanPassBase<VerifyPlanPass> {
  using Base::Base;
  void runOnOperation() override {
    for (auto function : getOperation().getOps<rt::FuncOp>()) {
      ProgramLiveness liveness;
      if (failed(liveness.run(function)) || failed(verifyOverlap(liveness)))
        return signalPassFailure();
    }
  }
};
} // namespace
