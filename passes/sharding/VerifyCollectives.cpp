//===- VerifyCollectives.cpp - Checks collectives against the runtime -----===//
#include "lib/Analysis/RuntimeCollectives.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYCOLLECTIVESPASS
#include "passes/sharding/Passes.h.inc"

static LogicalResult verify(CollectiveOpInterface collective) {
  std::string lack = findMissingCollective(collective);
  if (lack.empty() || collective->use_empty())
    return success();
  return collective->emitError("needs ")
         << collective->getOperand(0).getType() << ", which is split over axis '"
         << collective.getCollectiveAxis() << "', in another layout, and the runtime has no "
         << lack
         << ": the batch is split along a dimension that this op needs whole; name the dimension of the examples "
            "with --batch-dim INPUT:D, or leave that flag out";
}

namespace {
struct VerifyCollectivesPass : impl::VerifyCollectivesPassBase<VerifyCollectivesPass> {
  using VerifyCollectivesPassBase::VerifyCollectivesPassBase;
  void runOnOperation() final {
    WalkResult result = getOperation().walk([](CollectiveOpInterface collective) {
      return failed(verify(collective)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
