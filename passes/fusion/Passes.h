//===- Passes.h - The fusion stage ----------------------------------------===//
#ifndef SHALE_PASSES_FUSION_PASSES_H
#define SHALE_PASSES_FUSION_PASSES_H

#include "dialects/nn/NN.h"
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
  /// One op a cluster: to find what fusion is to blame for.
  bool singletons = false;
};

/// decompose, then fusion.
void buildFusionPipeline(mlir::OpPassManager &pm, const FusionOptions &options = {});


} // namespace shale

#endif // SHALE_PASSES_FUSION_PASSES_H
