//===- PlanFirst.cpp - Planning before a program is compiled --------------===//
#include "tools/driver/PlanFirst.h"
#include "lib/Analysis/Report.h"
#include "lib/Planning/ModelPlanner.h"
#include "lib/Support/Printable.h"
#include "lib/Support/Remarks.h"
#include "shale/Runtime.h"
#include "tools/driver/Messages.h"
#include "tools/driver/Outputs.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;

void shale::printProgress(size_t done, size_t all) {
  llvm::errs() << "shalec: " << done << " of " << all << " plans made\n";
}

int shale::checkPlanOptions(const CompileOptions &options) {
  if (llvm::is_contained(options.why, ""))
    return usageError("--why expects the name of a tensor, node, parameter, input or output");
  if (!options.compare.empty() && !options.planOnly)
    return usageError("--compare makes no program: it needs --plan-only");
  return SHALE_EXIT_OK;
}

int shale::writeReports(ModuleOp planned, const ProgramSummary &summary,
                        const CompileOptions &options) {
  for (const Report &report : options.reports) {
    // Written after partition and after the kernels are compiled.
    if (report.kind == ReportKind::Numerics || report.kind == ReportKind::Kernels)
      continue;
    ReportForm form = reportFormOf(report.file());
    std::string text;
    llvm::raw_string_ostream os(text);
    if (failed(report.kind == ReportKind::Memory
                   ? reportMemory(planned, summary, form, os)
                   : reportCommunication(planned, *options.machine, form, os)))
      return SHALE_EXIT_INTERNAL;
    if (int code = writeOutput(report.file(), [&](llvm::raw_ostream &file) { file << text; }))
      return code;
  }
  return SHALE_EXIT_OK;
}

/// Emits a remark (--remarks) that compares the chosen plan with the fastest one without a limit.
static void remarkChoice(Location loc, ArrayRef<ModelPlan> plans, const ModelPlan &best,
                         const MemoryLimit &limit) {
  const ModelPlan &fastest = plans.front();
  int64_t fitting = llvm::count_if(plans, [&](const ModelPlan &plan) { return plan.fits(limit); });
  auto text = [](const ModelPlan &plan) {
    return llvm::formatv("device {0}, host {1} bytes, {2} flops, predicted {3} ms", plan.device(),
                         plan.host(), plan.summary.flops, plan.seconds * 1e3)
        .str();
  };
  emitDecision(loc, "limit",
               llvm::Twine(fitting) + " of " + llvm::Twine(plans.size()) + " plans fit; chosen: " +
                   text(best) + "; the fastest without the limit: " + text(fastest));
}

/// Chooses the flags that were not typed. Returns an exit code.
static int chooseUnderLimit(ModelPlanner &planner, CompileOptions &options, Location loc) {
  MemoryLimit limit = options.limit();
  if (failed(planner.plan(options))) // reports errors in the flags
    return planner.exitCode;
  std::vector<ModelPlan> plans = planner.search(options);
  if (plans.empty()) // cannot happen: the first candidate was planned above
    return SHALE_EXIT_INTERNAL;
  const ModelPlan *best = fastestThatFits(plans, limit);
  if (!best) {
    llvm::errs() << "shalec: error: ";
    explainNoFit(planner, options, plans, limit, llvm::errs());
    return SHALE_EXIT_NO_FIT;
  }
  std::string flags = flagsBeside(best->options, options);
  remarkChoice(loc, plans, *best, limit);
  llvm::outs() << "limit         " << options.typedText("memory-limit") << ": the fastest of "
               << plans.size() << " plans that fits, "
               << (flags.empty() ? "the flags as they are" : flags) << "\n";
  options = best->options;
  return SHALE_EXIT_OK;
}

/// Without a limit, `--recompute auto` chooses the fastest policy and keeps all other flags.
static int chooseRecompute(ModelPlanner &planner, CompileOptions &options) {
  CompileOptions fixed = options;
  for (const Knob &knob : allKnobs())
    if (knob.flag != flagNamed("recompute"))
      fixed.typed.insert(knob.flag->name);
  if (failed(planner.plan(options)))
    return planner.exitCode;
  std::vector<ModelPlan> plans = planner.search(fixed);
  if (!plans.empty())
    options.recompute = plans.front().options.recompute;
  llvm::outs() << "recompute     " << textOf(options.recompute) << " is the fastest of "
               << plans.size() << " plans\n";
  return SHALE_EXIT_OK;
}

int shale::planFirst(ModuleOp recovered, CompileOptions &options, bool &stop) {
  bool planOnly = options.planOnly || !options.why.empty();
  if (!options.memoryLimit.any() && !planOnly && !options.recomputeAuto)
    return SHALE_EXIT_OK;
  ModelPlanner planner(recovered.clone(), printProgress);
  if (!options.compare.empty()) {
    stop = true;
    printComparison(planner, options, llvm::outs());
    return SHALE_EXIT_OK;
  }
  if (options.memoryLimit.any() || options.recomputeAuto)
    if (int code = options.memoryLimit.any()
                       ? chooseUnderLimit(planner, options, recovered.getLoc())
                       : chooseRecompute(planner, options))
      return code;
  if (!planOnly)
    return SHALE_EXIT_OK;
  stop = true;
  FailureOr<ModelPlan> plan = planner.plan(options);
  if (failed(plan))
    return planner.exitCode;
  PrintableStream os(llvm::outs());
  if (!options.why.empty()) {
    bool found = true;
    for (StringRef name : options.why)
      if (!printWhy(planner, *plan, name, os)) {
        llvm::errs()
            << "shalec: error: --why: no tensor, node, parameter, input or output is named '"
            << name << "'; --report memory lists tensors, --describe the others\n";
        found = false;
      }
    return found ? SHALE_EXIT_OK : SHALE_EXIT_USAGE;
  }
  printSummary(plan->summary, os);
  if (int code = writeReports(*plan->module, plan->summary, options))
    return code;
  printVerdict(planner, *plan, os);
  return SHALE_EXIT_OK;
}
