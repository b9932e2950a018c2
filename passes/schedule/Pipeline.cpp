//===- Pipeline.cpp - The schedule stage ----------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale::schedule_passes {
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
} // namespace shale::schedule_passes

void shale::buildSchedulePipeline(OpPassManager &pm, const ScheduleOptions &options) {
  // Each collective becomes a start and a wait, which later passes move apart.
  pm.addPass(createSplitCollectivesPass());
  // The order of ops determines which values are live at each point.
  pm.addPass(createOrderOpsPass());
  // Gradients are reduced in buckets as they become complete.
  BucketReductionsPassOptions buckets;
  buckets.bucketSize = options.bucketSize;
  buckets.order = options.order;
  pm.addPass(createBucketReductionsPass(buckets));
  // Parameters are gathered ahead of use.
  PrefetchGathersPassOptions gathers;
  gathers.prefetch = options.prefetch;
  gathers.maxGathersInFlight = options.maxGathersInFlight;
  pm.addPass(createPrefetchGathersPass(gathers));
  // Copies between the memories are placed last: they depend on the places of the gathers and
  // reductions that read them or produce their operands.
  ScheduleTransfersPassOptions transfers;
  transfers.prefetch = options.prefetch;
  transfers.maxGathersInFlight = options.maxGathersInFlight;
  pm.addPass(createScheduleTransfersPass(transfers));
  VerifyScheduledPassOptions verify;
  verify.maxGathersInFlight = options.maxGathersInFlight;
  pm.addPass(createVerifyScheduledPass(verify));
}

void shale::registerSchedulePasses() {
  schedule_passes::registerSchedulePasses();
  PassPipelineRegistration<ScheduleOptions>("shale-schedule",
                                            "Fix the order of ops and start communication early",
                                            buildSchedulePipeline);
}
