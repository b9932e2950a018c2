//===- Pipeline.cpp - The stages of a compilation, in order ---------------===//
#include "tools/driver/Pipeline.h"
#include "lib/Support/CrashHandler.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/annotate/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/import/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/program/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/sharding/Passes.h"
#include "shale/Runtime.h"
#include "tools/driver/Lower.h"
#include "tools/driver/Messages.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"

using namespace shale;
using mlir::OpPassManager;

/// The labels that flags bind stay bound.
static UnbindLabelsPassOptions unbindOptions(const CompileOptions &o) {
  UnbindLabelsPassOptions unbind;
  for (const auto &[input, binding] : o.binds)
    unbind.bound.push_back(input);
  return unbind;
}

static MemoryOptions memoryOptions(const CompileOptions &o) {
  MemoryOptions memory;
  memory.maxGathersInFlight = o.maxGathersInFlight;
  memory.recompute = o.recompute;
  memory.lossChunk = o.lossChunk;
  memory.offload = o.offload;
  return memory;
}

/// Returns the threads per rank that the program's launcher would set on this machine.
static int64_t threadsARank(const CompileOptions &options) {
  if (options.threads > 0)
    return options.threads;
  return std::max<int64_t>(1, llvm::hardware_concurrency().compute_thread_count() /
                                  options.mesh.ranks());
}

static LowerProgramPassOptions programOptions(const CompileOptions &o) {
  LowerProgramPassOptions program;
  bool given = o.typed.count("embed-path");
  llvm::StringRef folder = llvm::sys::path::parent_path(o.output);
  llvm::SmallString<128> real;
  if ((!given || o.embedPath == EmbedPath::Relative) &&
      !llvm::sys::fs::real_path(folder.empty() ? "." : folder, real))
    program.folder = real.str().str();
  program.relativePaths = given;
  if (o.memoryLimit.any()) {
    MemoryLimit limit = limitOf(o);
    program.hostLimit = limit.host.value_or(0);
    program.totalLimit = limit.sum.value_or(0);
  }
  return program;
}

static AnnotateOptions annotateOptions(const CompileOptions &o) {
  AnnotateOptions annotate;
  annotate.mesh = o.mesh;
  annotate.strategy = o.shard;
  annotate.reshardAfterForward = o.reshardAfterForward;
  annotate.syncEveryMicrobatch = o.syncEveryMicrobatch;
  annotate.keepSingleRank = o.keepSingleRank;
  annotate.unitPolicy = o.unit;
  annotate.freeze = o.freeze;
  annotate.noDecay = o.noDecay;
  annotate.updateScales = o.updateScales;
  annotate.optimizer = o.optimizer->name.str();
  annotate.optimizers = o.optimizers;
  annotate.tensor = o.tensor;
  annotate.paramDtype = o.paramDtype;
  annotate.reduceDtype = o.reduceDtype;
  annotate.bufferDtype = o.bufferDtype;
  annotate.masterDtype = o.masterDtype;
  annotate.optimizerDtype = o.optimizerDtype;
  annotate.productDtype = o.productDtype;
  annotate.wire = o.wire;
  return annotate;
}

static ShardingOptions shardingOptions(const CompileOptions &o) {
  ShardingOptions sharding;
  sharding.sequenceParallel = o.sequenceParallel;
  sharding.tensorAxes = o.mesh.ranksThat(dist::splitsValues) > 1;
  return sharding;
}

static FusionOptions fusionOptions(const CompileOptions &o) {
  FusionOptions fusion;
  fusion.callAttention = o.attention == AttentionKind::Auto;
  fusion.deterministic = o.deterministic;
  return fusion;
}

/// Returns the stages of a compilation without inserted passes.
static std::vector<Stage> ownStages(const CompileOptions &o) {
  return {
      // Folds shape arithmetic, and restores ops that exporters decomposed.
      {StageId::Recover, "recover",
       [&o](OpPassManager &pm) {
         pm.addPass(createAnnotateTargetPass({o.target}));
         buildImportPipeline(pm, {o.recover});
         // After recovery, because the pass reads the masks of nn.attention.
         pm.addPass(createUnbindLabelsPass(unbindOptions(o)));
       },
       SHALE_EXIT_DATA, Emit::NN, false, AfterStage::ChooseFlags},
      // Policies are attributes from here on. They come from flags, so a failure here is a usage
      // error.
      {StageId::Annotate, "annotate",
       [&o](OpPassManager &pm) {
         buildAnnotatePipeline(pm, annotateOptions(o));
         if (o.mesh.hasAxisThat(dist::splitsValues))
           buildDivisionPipeline(pm);
       },
       SHALE_EXIT_USAGE, Emit::NN, false},
      // The whole training step is one function.
      {StageId::Autodiff, "autodiff",
       [&o](OpPassManager &pm) {
         buildAutodiffPipeline(pm, {o.optimizer->name.str(), o.accumulate});
       },
       SHALE_EXIT_DATA, Emit::NN, false},
      // Values and state get the types that the flags specify.
      {StageId::Precision, "precision",
       [&o](OpPassManager &pm) { buildPrecisionPipeline(pm, o.paramRounding); }, SHALE_EXIT_DATA,
       Emit::NN, true},
      // Makes one rank's program. Sizes that do not divide are detected here; they come from flags.
      {StageId::Partition, "partition",
       [&o](OpPassManager &pm) { buildShardingPipeline(pm, shardingOptions(o)); }, SHALE_EXIT_USAGE,
       Emit::Dist, false, AfterStage::ReportNumerics},
      // Decides which values are kept and where. These policies come from flags.
      {StageId::Policies, "policies",
       [&o](OpPassManager &pm) { buildMemoryPoliciesPipeline(pm, memoryOptions(o)); },
       SHALE_EXIT_USAGE, Emit::Dist, false},
      // Makes policies explicit. No CSE from here on: it would merge recomputed or re-gathered
      // values.
      {StageId::Memory, "memory",
       [&o](OpPassManager &pm) { buildMemoryPipeline(pm, memoryOptions(o)); }, SHALE_EXIT_INTERNAL,
       Emit::Dist, true},
      // Every op is part of a kernel or a call from here on. Fails for an op that this target
      // cannot compute.
      {StageId::Fusion, "fusion",
       [&o](OpPassManager &pm) { buildFusionPipeline(pm, fusionOptions(o)); }, SHALE_EXIT_DATA,
       Emit::RT, false},
      // Fixes the order of ops.
      {StageId::Schedule, "schedule",
       [&o](OpPassManager &pm) {
         ScheduleOptions schedule;
         schedule.prefetch = o.prefetch;
         schedule.maxGathersInFlight = o.maxGathersInFlight;
         schedule.bucketSize = reductionBucket(o);
         schedule.order = o.order;
         buildSchedulePipeline(pm, schedule);
       },
       SHALE_EXIT_INTERNAL, Emit::RT, false},
      // Assigns every buffer an offset.
      {StageId::Plan, "plan",
       [&o](OpPassManager &pm) {
         PlanOptions plan;
         plan.threads = threadsARank(o);
         plan.allowTf32 = o.allowTf32;
         plan.fastMath = o.fastMath;
         buildPlanPipeline(pm, plan);
       },
       SHALE_EXIT_INTERNAL, Emit::RT, true, AfterStage::ReportPlan},
      {StageId::Codegen, "codegen",
       [&o](OpPassManager &pm) {
         pm.addPass(createGenerateKernelsPass());
         pm.addPass(createLowerProgramPass(programOptions(o)));
       },
       SHALE_EXIT_INTERNAL, Emit::LLVM, true},
  };
}

std::vector<Stage> shale::stagesFor(const CompileOptions &o) {
  std::vector<Stage> stages = ownStages(o);
  for (const auto &[after, passes] : o.inserted) {
    auto insert = [&passes = passes](OpPassManager &pm) {
      (void)mlir::parsePassPipeline(passes, pm); // checkInsertedPasses() reports errors
    };
    if (after == "import") // it has no passes: insert before the first stage
      stages.front().build = [insert, build = stages.front().build](OpPassManager &pm) {
        insert(pm);
        build(pm);
      };
    for (Stage &stage : stages)
      if (after == stage.name)
        stage.build = [insert, build = stage.build](OpPassManager &pm) {
          build(pm);
          insert(pm);
        };
  }
  return stages;
}

std::optional<int> shale::runStages(mlir::ModuleOp module, llvm::ArrayRef<Stage> stages,
                                    const StageHooks &hooks) {
  for (const Stage &stage : stages) {
    CrashStage running(std::string("running the passes of stage '") + stage.name + "'");
    mlir::PassManager manager(module.getContext());
    stage.build(manager);
    if (hooks.before)
      hooks.before(stage, manager);
    if (failed(manager.run(module)))
      return stage.exitCode;
    if (hooks.after)
      if (std::optional<int> code = hooks.after(stage))
        return code;
  }
  return std::nullopt;
}

std::string shale::namesOf(llvm::ArrayRef<Stage> stages) {
  std::string names = "import";
  for (const Stage &stage : stages)
    names += std::string(", ") + stage.name;
  return names;
}

std::string shale::describeStage(const Stage &stage) {
  OpPassManager manager(mlir::ModuleOp::getOperationName());
  stage.build(manager);
  std::string text;
  llvm::raw_string_ostream os(text);
  manager.printAsTextualPipeline(os);
  return text;
}

int shale::checkInsertedPasses(const CompileOptions &options) {
  auto error = [](const llvm::Twine &message) { return usageError("--insert-pass: " + message); };
  std::vector<Stage> stages = ownStages(options);
  for (const auto &[after, passes] : options.inserted) {
    auto isAfter = [&after = after](const Stage &stage) { return after == stage.name; };
    if (after != "import" && llvm::none_of(stages, isAfter))
      return error("stage '" + after + "' is not one of " + namesOf(stages));
    std::string message;
    llvm::raw_string_ostream os(message);
    OpPassManager manager(mlir::ModuleOp::getOperationName());
    if (failed(mlir::parsePassPipeline(passes, manager, os)))
      return error(llvm::StringRef(message).rtrim() +
                   (options.plugins.empty() ? "; --load-pass-plugin=FILE adds passes" : ""));
  }
  return SHALE_EXIT_OK;
}
