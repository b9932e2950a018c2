//===- Passes.h - The schedule stage --------------------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_PASSES_H
#define SHALE_PASSES_SCHEDULE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "lib/Support/PolicyOption.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

#define GEN_PASS_DECL
#include "passes/schedule/Passes.h.inc"

struct ScheduleOptions : public mlir::PassPipelineOptions<ScheduleOptions> {
  Option<int64_t> prefetch{*this, "prefetch", llvm::cl::desc("Units gathered ahead of use"),
                           llvm::cl::init(1)};
  Option<int64_t> maxGathersInFlight{*this, "max-gathers-in-flight",
                                     llvm::cl::desc("Units that may be whole or in flight at once"),
                                     llvm::cl::init(2)};
  Option<int64_t> bucketSize{
      *this, "bucket-size",
      llvm::cl::desc("Bytes of gradients reduced together; 0: those of a unit"), llvm::cl::init(0)};
  Option<ReductionOrder> order{
      *this, "order",
      llvm::cl::desc(
          "overlap: a bucket is reduced while the next one is made; memory: before that"),
      llvm::cl::init(ReductionOrder::Overlap)};
};

/// Appends schedule: puts ops of nn (with clusters), dist and mem into the order in which each rank
/// runs them.
void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options);

void registerSchedulePasses();

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_PASSES_H
