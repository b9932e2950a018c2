//===- MaterializeRecompute.cpp - Recomputes and gathers again ------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/IRMapping.h"
#include "passes/memory/Intervals.h"
#include "passes/memory/Passes.h"
#include "passes/memory/Slices.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_MATERIALIZERECOMPUTEPASS
#include "passes/memory/Passes.h.inc"

/// Gathers the group again in front of `uses`, which lie in one interval, and
/// makes them read views of the clone:
///
///   %s1 = mem.barrier %shard
///   %w1 = dist.unit_gather %s1 @u[0] ...
///   %v1 = dist.unit_view %w1 @u[0] @w
static void gatherAgain(dist::UnitGatherOp gather, ArrayRef<OpOperand *> uses) {
  Operation *first = uses.front()->getOwner();
  OpBuilder builder(first);
  auto place = [&](Operation *op) {
    if (Attribute phase = first->getAttr(nn::kPhaseAttr))
      op->setAttr(nn::kPhaseAttr, phase);
    return op;
  };
  auto barrier = mem::BarrierOp::create(builder, gather.getLoc(), gather.getInput().getType(),
                                        gather.getInput());
  place(barrier);
  IRMapping mapping;
  mapping.map(gather.getInput(), barrier.getResult(0));
  place(builder.clone(*gather, mapping));
  for (OpOperand *use : uses) {
    Value value = use->get();
    if (!mapping.contains(value))
      place(builder.clone(*value.getDefiningOp(), mapping));
    use->set(mapping.lookup(value));
  }
}

static void materialize(func::FuncOp function, int64_t bound) {
  UnitIntervals intervals(function, bound);
  SmallVector<dist::UnitGatherOp> gathers;
  for (auto gather : function.getOps<dist::UnitGatherOp>())
    if (gather->hasAttr(mem::kRecomputeAttr))
      gathers.push_back(gather);
  for (dist::UnitGatherOp gather : gathers) {
    SmallVector<OpOperand *> uses = UnitIntervals::usesOf(gather);
    bool kept = false;
    for (const Interval &interval : intervals.of(gather.getUnitAttr().getAttr())) {
      SmallVector<OpOperand *> inside;
      for (OpOperand *use : uses) {
        int64_t position = intervals.positionOf(use->getOwner());
        if (interval.begin <= position && position <= interval.end)
          inside.push_back(use);
      }
      if (inside.empty())
        continue;
      if (kept)
        gatherAgain(gather, inside);
      kept = true; // the first interval reads the original gather
    }
  }
  // Erase views whose users all moved to clones.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isa<dist::UnitViewOp>(op) && op.use_empty())
      op.erase();
}

namespace {
struct MaterializeRecomputePass : impl::MaterializeRecomputePassBase<MaterializeRecomputePass> {
  using MaterializeRecomputePassBase::MaterializeRecomputePassBase;
  void runOnOperation() final {
    // One after the other, not in parallel: blocks are found from the whole module.
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      if (int64_t flops = recomputeSlices(function))
        function->setAttr(mem::kRecomputeFlopsAttr, Builder(function).getI64IntegerAttr(flops));
      materialize(function, maxGathersInFlight);
    }
  }
};
} // namespace

} // namespace shale
