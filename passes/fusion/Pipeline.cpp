//===- Pipeline.cpp - The fusion stage ------------------------------------===//
#include "lib/Options/PassOptions.h"
#include "mlir/Pass/PassManager.h"
#include "passes/fusion/Passes.h"

using namespace shale;

void shale::buildFusionPipeline(mlir::OpPassManager &pm, const CompileOptions &options,
                                const FusionPassOptions &fusion) {
  // Shards that are sent in another type than they are stored in are cast first.
  pm.addPass(createConvertGathersPass());
  // Rows of an expert are put next to each other.
  pm.addPass(createSortExpertsPass());
  // Attention of 16-bit floats is a library call on GPUs.
  if (options.attention == AttentionKind::Auto)
    pm.addPass(createCallAttentionPass(optionsOf<CallAttentionPassOptions>(options)));
  // Matmuls whose operands are rounded to 8-bit floats become matmuls of these.
  pm.addPass(createQuantizeMatmulsPass());
  // Layers that read one value share the matmuls of their gradients.
  pm.addPass(createJoinMatmulsPass());
  // Matmuls of odd sizes are padded where they are slow.
  pm.addPass(createPadMatmulsPass());
  // Ops on 16-bit floats that the target does not support compute in f32.
  pm.addPass(createWidenPass());
  // A matmul's bias, GELU and its gradient may be part of a library call.
  pm.addPass(createCallEpiloguesPass());
  // Gradients of large lookups sort their indices where the target wants that.
  pm.addPass(createSortLookupsPass());
  // Norms, losses and the like become elementwise ops and reductions.
  pm.addPass(createDecomposePass());
  // Reductions with too few results for the target's parallel work become two stages.
  pm.addPass(createSplitReductionsPass());
  // Shards that are sent as 8-bit integers are quantized by one kernel and read by another.
  pm.addPass(createQuantizeGathersPass());
  // Gradients that are sent as 8-bit integers, too; what is not sent is kept for the next step.
  pm.addPass(createQuantizeReductionsPass());
  // Groups of ops become kernels.
  pm.addPass(createFusionPass(fusion));
  // Ops without a kernel are reported here, before anything is planned.
  pm.addPass(createSplitClustersPass());
}
