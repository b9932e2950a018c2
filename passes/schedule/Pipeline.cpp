//===- Pipeline.cpp - The schedule stage ----------------------------------===//
#include "lib/Options/PassOptions.h"
#include "mlir/Pass/PassManager.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale::schedule_passes {
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"
} // namespace shale::schedule_passes

void shale::buildSchedulePipeline(OpPassManager &pm, const CompileOptions &options) {
  // Each collective becomes a start and a wait, which later passes move apart.
  pm.addPass(createSplitCollectivesPass());
  // The order of ops determines which values are live at each point.
  pm.addPass(createOrderOpsPass());
  // Gradients are reduced in buckets as they become complete.
  pm.addPass(createBucketReductionsPass(optionsOf<BucketReductionsPassOptions>(options)));
  // Parameters are gathered ahead of use.
  pm.addPass(createPrefetchGathersPass(optionsOf<PrefetchGathersPassOptions>(options)));
  // Copies between the memories are placed last: they depend on the places of the gathers and
  // reductions that read them or produce their operands.
  pm.addPass(createScheduleTransfersPass(optionsOf<ScheduleTransfersPassOptions>(options)));
  pm.addPass(createVerifyScheduledPass(optionsOf<VerifyScheduledPassOptions>(options)));
}

void shale::registerSchedulePasses() { schedule_passes::registerSchedulePasses(); }
