//===- Pipeline.cpp - The stages of a compilation, in order ---------------===//
#include "tools/driver/Pipeline.h"
#include "lib/Support/MeshSpec.h"
#include "passes/annotate/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/import/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/program/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/sharding/Passes.h"
#include "shale/Runtime.h"
#include "llvm/Support/Threading.h"

using namespace shale;
using mlir::OpPassManager;

static MemoryOptions memoryOptions(const CompileOptions &o) {
  MemoryOptions memory;
  memory.maxGathersInFlight = o.maxGathersInFlight;
  memory.recompute = o.recompute;
  memory.offload = o.offload;
  return memory;
}

/// What the program's launcher would give a rank here.
static int64_t threadsARank(const CompileOptions &options) {
  MeshSpec mesh;
  if (options.threads > 0 || !parseMesh(options.mesh, mesh).empty())
    return std::max(1, options.threads);
  return std::max<int64_t>(1, llvm::hardware_concurrency().compute_thread_count() / mesh.ranks());
}

std::vector<Stage> shale::stagesFor(const CompileOptions &o) {
  return {
      // Shape arithmetic is gone, and what exporters took apart is one op again.
      {"recover",
       [&o](OpPassManager &pm) {
         pm.addPass(createAnnotateTargetPass({o.target}));
         buildImportPipeline(pm, {o.recover});
       },
       SHALE_EXIT_DATA, Emit::NN, false},
      // Policies are attributes from here on. They come from flags, so what fails here is a flag.
      {"annotate",
       [&o](OpPassManager &pm) {
         AnnotateOptions annotate;
         annotate.mesh = o.mesh;
         annotate.strategy = o.shard;
         annotate.reshardAfterForward = o.reshardAfterForward;
         annotate.syncEveryMicrobatch = o.syncEveryMicrobatch;
         annotate.unitPolicy = o.unit;
         annotate.freeze = o.freeze;
         annotate.noDecay = o.noDecay;
         annotate.paramDtype = o.paramDtype;
         annotate.reduceDtype = o.reduceDtype;
         annotate.bufferDtype = o.bufferDtype;
         annotate.masterDtype = o.masterDtype;
         annotate.optimizerDtype = o.optimizerDtype;
         buildAnnotatePipeline(pm, annotate);
       },
       SHALE_EXIT_USAGE, Emit::NN, false},
      // The whole training step stands in one function.
      {"autodiff", [&o](OpPassManager &pm) { buildAutodiffPipeline(pm, {o.optimizer, o.accumulate}); }, SHALE_EXIT_DATA, Emit::NN, false},
      // Types of values and state are those that the flags say.
      {"precision", [](OpPassManager &pm) { buildPrecisionPipeline(pm); }, SHALE_EXIT_DATA, Emit::NN, true},
      // One rank's program. Sizes that do not divide are found here, and they come from flags.
      {"partition", [](OpPassManager &pm) { buildShardingPipeline(pm); }, SHALE_EXIT_USAGE, Emit::Dist, false},
      // What is kept, and where. This comes from flags.
      {"policies", [&o](OpPassManager &pm) { buildMemoryPoliciesPipeline(pm, memoryOptions(o)); }, SHALE_EXIT_USAGE, Emit::Dist, false},
      // Policies made explicit. No CSE from here on: it would merge what is computed or gathered again.
      {"memory", [&o](OpPassManager &pm) { buildMemoryPipeline(pm, memoryOptions(o)); },
       SHALE_EXIT_INTERNAL, Emit::Dist, true},
      // Every op is part of a kernel or a call from here on. What fails is an op that this target cannot compute.
      {"fusion",
       [](OpPassManager &pm) { buildFusionPipeline(pm); },
       SHALE_EXIT_DATA, Emit::RT, false},
      // The order is fixed.
      {"schedule",
       [&o](OpPassManager &pm) {
         ScheduleOptions schedule;
         schedule.prefetch = o.prefetch;
         schedule.maxGathersInFlight = o.maxGathersInFlight;
         schedule.bucketSize = reductionBucket(o);
         schedule.order = o.order;
         buildSchedulePipeline(pm, schedule);
       },
       SHALE_EXIT_INTERNAL, Emit::RT, false},
      // Every buffer has an offset.
      {"plan",
       [&o](OpPassManager &pm) {
         PlanOptions plan;
         plan.threads = threadsARank(o);
         buildPlanPipeline(pm, plan);
       },
       SHALE_EXIT_INTERNAL, Emit::RT, true},
      {"codegen",
       [](OpPassManager &pm) {
         pm.addPass(createGenerateKernelsPass());
         pm.addPass(createLowerProgramPass());
       },
       SHALE_EXIT_INTERNAL, Emit::LLVM, true},
  };
}
