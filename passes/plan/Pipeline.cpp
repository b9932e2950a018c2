//===- Pipeline.cpp - The plan stage --------------------------------------===//
#include "mlir/Pass/PassManager.h"
#include "passes/plan/Passes.h"

using namespace shale;

namespace shale::plan_passes {
#define GEN_PASS_REGISTRATION
#include "passes/plan/Passes.h.inc"
} // namespace shale::plan_passes

void shale::buildPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options) {
  // Values become buffers, ops become calls.
  PlanPassOptions plan;
  plan.threads = options.threads;
  plan.allowTf32 = options.allowTf32;
  plan.fastMath = options.fastMath;
  pm.addPass(createPlanPass(plan));
  pm.addPass(createVerifyPlanPass());
  pm.addPass(createVerifyStreamsPass());
}

void shale::registerPlanPasses() { plan_passes::registerPlanPasses(); }
