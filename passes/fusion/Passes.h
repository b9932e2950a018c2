//===- Passes.h - The fusion stage ----------------------------------------===//
#ifndef SHALE_PASSES_FUSION_PASSES_H
#define SHALE_PASSES_FUSION_PASSES_H

#include "dialects/nn/NN.h"
#include "lib/Support/PolicyOption.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#include "passes/fusion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/fusion/Passes.h.inc"

/// Appends the fusion stage: casts, decomposition, fusion, then a trial of the kernels.
void buildFusionPipeline(mlir::OpPassManager &pm, const CompileOptions &options,
                         const FusionPassOptions &fusion = {});

} // namespace shale

#endif // SHALE_PASSES_FUSION_PASSES_H
