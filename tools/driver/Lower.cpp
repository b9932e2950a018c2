//===- Lower.cpp - Lowering of one rank's program to a plan ---------------===//
#include "tools/driver/Lower.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "shale/Runtime.h"
#include "tools/driver/Pipeline.h"

using namespace mlir;
using namespace shale;

int64_t Plan::device() const { return summary.peakBytes(/*host=*/false); }
int64_t Plan::host() const { return summary.peakBytes(/*host=*/true); }

bool Plan::fits(const MemoryLimit &limit) const {
  return (!limit.device || device() <= *limit.device) && (!limit.host || host() <= *limit.host) &&
         (!limit.sum || device() + host() <= *limit.sum);
}

MemoryLimit shale::limitOf(const CompileOptions &options) {
  MemoryLimit limit;
  bool oneMemory = ratesFor(options).oneMemory || !(options.planOnly || !options.why.empty());
  if (options.memoryLimit.empty() ||
      !parseMemoryLimit(options.memoryLimit, oneMemory, limit).empty())
    return {};
  return limit;
}

const Rates &shale::ratesFor(const CompileOptions &options) {
  const Rates *rates = ratesNamed(options.machine);
  return rates ? *rates : knownRates().front();
}

/// Removes the re-gather mark that partition sets on units, so that gathered units are kept.
static void keepGathered(ModuleOp module) {
  module.walk([](dist::UnitGatherOp gather) { gather->removeAttr(mem::kRecomputeAttr); });
}

int shale::runStages(ModuleOp module, const CompileOptions &options, StringRef from, StringRef to,
                     bool verify) {
  bool inside = false;
  for (const Stage &stage : stagesFor(options)) {
    if (inside) {
      PassManager manager(module.getContext());
      manager.enableVerifier(verify);
      stage.build(manager);
      if (failed(manager.run(module)))
        return stage.exitCode;
    }
    inside |= from == stage.name;
    if (to == stage.name)
      break;
  }
  return SHALE_EXIT_OK;
}

OwningOpRef<ModuleOp> shale::lowerToFused(ModuleOp partitioned, const CompileOptions &options,
                                          bool verify, int *exitCode) {
  OwningOpRef<ModuleOp> module = partitioned.clone();
  if (!options.reshardAfterForward)
    keepGathered(*module);
  if (int code = runStages(*module, options, "partition", "fusion", verify)) {
    if (exitCode)
      *exitCode = code;
    return {};
  }
  return module;
}

std::string shale::fusedKey(const CompileOptions &o) {
  return o.recompute + "|" + o.offload + "|" + std::to_string(o.maxGathersInFlight) + "|" +
         std::to_string(o.reshardAfterForward);
}

FailureOr<Plan> shale::planFused(OwningOpRef<ModuleOp> fused, const CompileOptions &options,
                                 bool verify) {
  Plan plan;
  plan.options = options;
  plan.module = std::move(fused);
  if (runStages(*plan.module, options, "fusion", "plan", verify))
    return failure();
  FailureOr<ProgramSummary> summary = summarizeProgram(*plan.module);
  if (failed(summary))
    return failure();
  plan.summary = std::move(*summary);
  plan.seconds = predictSeconds(*plan.module, ratesFor(options));
  return plan;
}
