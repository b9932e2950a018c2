//===- Passes.h - The plan stage ------------------------------------------===//
#ifndef SHALE_PASSES_PLAN_PASSES_H
#define SHALE_PASSES_PLAN_PASSES_H

#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

#define GEN_PASS_DECL
#include "passes/plan/Passes.h.inc"

struct PlanOptions : public mlir::PassPipelineOptions<PlanOptions> {
  Option<int64_t> threads{*this, "threads",
                          llvm::cl::desc("Threads per rank assumed by the memory plan"),
                          llvm::cl::init(1)};
  Option<bool> allowTf32{*this, "allow-tf32",
                         llvm::cl::desc("Products of f32 may round their operands to TF32"),
                         llvm::cl::init(false)};
  Option<bool> fastMath{*this, "fast-math",
                        llvm::cl::desc("Kernels of GPUs may approximate exp, tanh and divisions"),
                        llvm::cl::init(false)};
};

/// Appends plan: lowers scheduled nn (with clusters), dist and mem to rt.
void buildPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options);

void registerPlanPasses();

} // namespace shale

#endif // SHALE_PASSES_PLAN_PASSES_H
