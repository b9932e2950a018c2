//===- Passes.h - The plan stage ------------------------------------------===//
#ifndef SHALE_PASSES_PLAN_PASSES_H
#define SHALE_PASSES_PLAN_PASSES_H

#include "dialects/rt/RT.h"
#include "lib/Support/PolicyOption.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#include "passes/plan/Passes.h.inc"

/// Appends plan: lowers scheduled nn (with clusters), dist and mem to rt.
void buildPlanPipeline(mlir::OpPassManager &pm, const CompileOptions &options);

void registerPlanPasses();

} // namespace shale

#endif // SHALE_PASSES_PLAN_PASSES_H
