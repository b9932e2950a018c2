//===- Planner.cpp - Plans of one model under many flags ------------------===//
#include "lib/Driver/Planner.h"
#include "lib/Driver/Pipeline.h"
#include "lib/Support/MeshSpec.h"
#include "mlir/IR/Diagnostics.h"
#include "shale/Runtime.h"

using namespace mlir;
using namespace shale;

/// What a partitioned module depends on, of the flags that plans differ in.
static std::string graphKey(const CompileOptions &options) {
  std::string key;
  for (const Knob &knob : allKnobs())
    if (knob.graph)
      key += knob.get(options) + "|";
  return key;
}

LogicalResult Planner::partition(const CompileOptions &options, std::string *quiet) {
  std::string key = graphKey(options);
  if (partitioned && key == partitionedFor)
    return success();
  partitioned = {};
  std::optional<ScopedDiagnosticHandler> handler;
  if (quiet)
    handler.emplace(recovered->getContext(), [quiet](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && quiet->empty())
        *quiet = diagnostic.str();
      return success();
    });
  CompileOptions whole = options;
  whole.reshardAfterForward = true; // lower() takes it back
  OwningOpRef<ModuleOp> module = recovered->clone();
  bool inside = false;
  for (const Stage &stage : stagesFor(whole, target)) {
    StringRef name = stage.name;
    if (inside) {
      PassManager manager(module->getContext());
      stage.build(manager);
      exitCode = stage.exitCode;
      if (failed(manager.run(*module)))
        return failure();
    }
    inside |= name == "recover";
    if (name == "partition")
      break;
  }
  partitioned = std::move(module);
  partitionedFor = key;
  return success();
}

FailureOr<Plan> Planner::plan(const CompileOptions &options, std::string *quiet) {
  if (failed(partition(options, quiet)))
    return failure();
  exitCode = SHALE_EXIT_INTERNAL;
  return lower(*partitioned, options, target, quiet);
}

std::vector<Plan> Planner::search(const CompileOptions &options) {
  MeshSpec mesh;
  int64_t ranks = 1;
  if (parseMesh(options.mesh, mesh).empty())
    for (int64_t size : mesh.sizes)
      ranks *= size;
  std::vector<Plan> plans;
  for (const CompileOptions &candidate : candidates(options, ranks)) {
    std::string wrong;
    FailureOr<Plan> plan = this->plan(candidate, &wrong);
    if (failed(plan))
      continue; // this machine cannot do that; the first candidate was checked
    plan->module = {};
    plans.push_back(std::move(*plan));
  }
  // Of equally fast ones the smaller, then the one that is nearer to what was typed.
  llvm::stable_sort(plans, [](const Plan &a, const Plan &b) {
    return std::make_pair(a.seconds, a.device()) < std::make_pair(b.seconds, b.device());
  });
  return plans;
}

const Plan *shale::fastestThatFits(ArrayRef<Plan> plans, const MemoryLimit &limit) {
  for (const Plan &plan : plans)
    if (plan.fits(limit))
      return &plan;
  return nullptr;
}

namespace {
/// Whether a batch fits: the flags that needed least before are tried first.
class BatchProbe {
public:
  BatchProbe(llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import, const CompileOptions &options, const CpuTarget &target,
             const MemoryLimit &limit)
      : import(import), options(options), target(target), limit(limit) {}

  bool fits(int64_t batch) {
    OwningOpRef<ModuleOp> module = import(batch);
    if (!module)
      return false;
    Planner planner(std::move(module), target);
    if (least) {
      std::string wrong;
      FailureOr<Plan> plan = planner.plan(*least, &wrong);
      if (succeeded(plan) && plan->fits(limit))
        return true;
    }
    std::vector<Plan> plans = planner.search(options);
    for (const Plan &plan : plans)
      if (!least || plan.device() < leastBytes) {
        least = plan.options;
        leastBytes = plan.device();
      }
    return fastestThatFits(plans, limit) != nullptr;
  }

private:
  llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import;
  const CompileOptions &options;
  const CpuTarget &target;
  const MemoryLimit &limit;
  std::optional<CompileOptions> least;
  int64_t leastBytes = 0;
};
} // namespace

int64_t shale::largestBatch(llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import, const CompileOptions &options,
                            const CpuTarget &target, const MemoryLimit &limit, int64_t ranks) {
  BatchProbe probe(import, options, target, limit);
  constexpr int64_t kMost = 1 << 20; // rows a rank
  int64_t low = 0, high = 1;
  while (high <= kMost && probe.fits(high * ranks)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (probe.fits(middle * ranks) ? low : high) = middle;
  }
  return low * ranks;
}
