//===- Pipeline.cpp - Schedule and plan, in order -------------------------===//
#include "passes/schedule/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace shale;

namespace shale::schedule_passes {
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
} // namespace shale::schedule_passes

void shale::buildSchedulePipeline(OpPassManager &pm, const ScheduleOptions &options) {
  // The order first: what is live when follows from it.
  SchedulePassOptions schedule;
  schedule.prefetch = options.prefetch;
  schedule.maxGathersInFlight = options.maxGathersInFlight;
  schedule.bucketSize = options.bucketSize;
  schedule.order = options.order;
  pm.addPass(createSchedulePass(schedule));
  pm.addPass(createVerifyScheduledPass());
  // Then places: values become buffers, ops become calls.
  PlanPassOptions plan;
  plan.threads = options.threads;
  pm.addPass(createPlanPass(plan));
  pm.addPass(createVerifyPlanPass());
}

void shale::registerSchedulePasses() {
  schedule_passes::registerSchedulePasses();
  PassPipelineRegistration<ScheduleOptions>(
      "shale-schedule-pipeline", "Fix the order, then plan memory: to rt", buildSchedulePipeline);
}
