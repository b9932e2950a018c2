//===- Pipeline.cpp - The plan stage --------------------------------------===//
#include "lib/Options/PassOptions.h"
#include "mlir/Pass/PassManager.h"
#include "passes/plan/Passes.h"

using namespace shale;

namespace shale::plan_passes {
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"
} // namespace shale::plan_passes

void shale::buildPlanPipeline(mlir::OpPassManager &pm, const CompileOptions &options) {
  // Values become buffers, ops become calls.
  auto plan = optionsOf<PlanPassOptions>(options);
  plan.threads = options.threadsPerRank();
  pm.addPass(createPlanPass(plan));
  pm.addPass(createVerifyPlanPass());
  pm.addPass(createVerifyStreamsPass());
}

void shale::registerPlanPasses() { plan_passes::registerPlanPasses(); }
