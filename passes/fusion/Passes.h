//===- Passes.h - The fusion stage ----------------------------------------===//
#ifndef SHALE_PASSES_FUSION_PASSES_H
#define SHALE_PASSES_FUSION_PASSES_H

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

#define GEN_PASS_DECL
#include "passes/fusion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/fusion/Passes.h.inc"

struct FusionOptions {
  /// One op per cluster, to find out whether fusion causes a problem.
  bool singletons = false;
  /// Whether a target's library computes attention.
  bool callAttention = true;
  /// Whether library calls must give the same bits in every run.
  bool deterministic = true;
};

/// Appends the fusion stage: casts, decomposition, fusion, then a trial of the kernels.
void buildFusionPipeline(mlir::OpPassManager &pm, const FusionOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_FUSION_PASSES_H
