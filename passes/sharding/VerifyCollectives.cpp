//===- VerifyCollectives.cpp - Checks collectives against the runtime -----===//
#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYCOLLECTIVESPASS
#include "passes/sharding/Passes.h.inc"

/// Returns the name of the collective that the runtime lacks for an op, or "".
static std::string lackFor(Operation *op) {
  auto along = [](int64_t dim) { return " along dimension " + std::to_string(dim); };
  if (auto gather = dyn_cast<dist::AllGatherOp>(op); gather && gather.getDim() != 0)
    return "all-gather" + along(gather.getDim());
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    if (scatter.getDim() != 0)
      return "reduce-scatter" + along(scatter.getDim());
    if (scatter.getReduction() != dist::Reduction::Sum)
      return "reduce-scatter but of sums";
  }
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op);
      reduce && reduce.getReduction() != dist::Reduction::Sum)
    return "all-reduce but of sums";
  return isa<dist::AllToAllOp>(op) ? "all-to-all" : "";
}

static LogicalResult verify(CollectiveOpInterface collective) {
  std::string lack = lackFor(collective);
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
