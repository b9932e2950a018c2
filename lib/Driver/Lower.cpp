//===- Lower.cpp - From one rank's program to a plan, as a function -------===//
#include "lib/Driver/Lower.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "lib/Driver/Pipeline.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace shale;

int64_t Plan::device() const { return summary.peakBytes(); }
int64_t Plan::host() const { return 0; }

bool Plan::fits(const MemoryLimit &limit) const {
  return (!limit.device || device() <= *limit.device) && (!limit.host || host() <= *limit.host);
}

const Rates &shale::ratesFor(const CompileOptions &options) {
  const Rates *rates = ratesNamed(options.machine);
  return rates ? *rates : knownRates().front();
}

/// Units are partitioned to be gathered again; without that they are kept.
static void keepGathered(ModuleOp module) {
  module.walk([](dist::UnitGatherOp gather) { gather->removeAttr(mem::kRecomputeAttr); });
}

FailureOr<Plan> shale::lower(ModuleOp partitioned, const CompileOptions &options, const CpuTarget &target, std::string *quiet) {
  std::optional<ScopedDiagnosticHandler> handler;
  if (quiet)
    handler.emplace(partitioned.getContext(), [quiet](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && quiet->empty())
        *quiet = diagnostic.str();
      return success();
    });
  Plan plan;
  plan.options = options;
  plan.module = partitioned.clone();
  if (!options.reshardAfterForward)
    keepGathered(*plan.module);
  PassManager manager(partitioned.getContext());
  bool inside = false;
  for (const Stage &stage : stagesFor(options, target)) {
    if (inside)
      stage.build(manager);
    inside |= stage.level == Emit::Dist && StringRef(stage.name) == "partition";
    if (stage.level == Emit::RT && stage.last)
      break;
  }
  if (failed(manager.run(*plan.module)))
    return failure();
  FailureOr<ProgramSummary> summary = summarizeProgram(*plan.module);
  if (failed(summary))
    return failure();
  plan.summary = std::move(*summary);
  plan.seconds = predictSeconds(*plan.module, ratesFor(options));
  return plan;
}
