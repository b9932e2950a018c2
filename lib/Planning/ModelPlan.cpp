//===- ModelPlan.cpp - The plan of one rank's program ---------------------===//
#include "lib/Planning/ModelPlan.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "shale/Runtime.h"

using namespace mlir;
using namespace shale;

int64_t ModelPlan::device() const { return summary.peakBytes(mem::Memory::Device); }
int64_t ModelPlan::host() const { return summary.peakBytes(mem::Memory::Host); }

bool ModelPlan::fits(const MemoryLimit &limit) const {
  return (!limit.device || device() <= *limit.device) && (!limit.host || host() <= *limit.host) &&
         (!limit.sum || device() + host() <= *limit.sum);
}

/// Removes the re-gather mark that partition sets on units, so that gathered units are kept.
static void keepGathered(ModuleOp module) {
  module.walk([](dist::UnitGatherOp gather) { gather->removeAttr(mem::kRecomputeAttr); });
}

/// Returns the stages after `from`, up to and including `to`.
static std::vector<Stage> stagesBetween(const CompileOptions &options, StageId from, StageId to) {
  std::vector<Stage> stages = stagesFor(options);
  llvm::erase_if(stages, [&](const Stage &stage) { return stage.id <= from || stage.id > to; });
  return stages;
}

int shale::runStages(ModuleOp module, const CompileOptions &options, StageId from, StageId to,
                     bool verify) {
  StageHooks hooks;
  hooks.before = [&](const Stage &, PassManager &manager) { manager.enableVerifier(verify); };
  return runStages(module, stagesBetween(options, from, to), hooks).value_or(SHALE_EXIT_OK);
}

std::string shale::describeStages(const CompileOptions &options, StageId from, StageId to) {
  std::string text;
  for (const Stage &stage : stagesBetween(options, from, to))
    text += describeStage(stage);
  return text;
}

OwningOpRef<ModuleOp> shale::lowerToFused(ModuleOp partitioned, const CompileOptions &options,
                                          bool verify, int *exitCode) {
  OwningOpRef<ModuleOp> module = partitioned.clone();
  if (!options.reshardAfterForward)
    keepGathered(*module);
  if (int code = runStages(*module, options, StageId::Partition, StageId::Fusion, verify)) {
    if (exitCode)
      *exitCode = code;
    return {};
  }
  return module;
}

std::string shale::fusedKey(const CompileOptions &o) {
  // lowerToFused() applies --reshard-after-forward itself.
  return describeStages(o, StageId::Partition, StageId::Fusion) +
         (o.reshardAfterForward ? "" : "|keep gathered");
}

FailureOr<ModelPlan> shale::planFused(OwningOpRef<ModuleOp> fused, const CompileOptions &options,
                                      bool verify) {
  ModelPlan plan;
  plan.options = options;
  plan.module = std::move(fused);
  if (runStages(*plan.module, options, StageId::Fusion, StageId::Plan, verify))
    return failure();
  FailureOr<ProgramSummary> summary = summarizeProgram(*plan.module);
  if (failed(summary))
    return failure();
  plan.summary = std::move(*summary);
  plan.seconds = predictSeconds(*plan.module, *options.machine);
  return plan;
}
