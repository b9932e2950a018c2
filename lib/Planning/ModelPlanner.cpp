//===- ModelPlanner.cpp - Plans of one model under many flags -------------===//
#include "lib/Planning/ModelPlanner.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"
#include "shale/Runtime.h"
#include "llvm/Support/Threading.h"
#include <chrono>
#include <map>
#include <mutex>

using namespace mlir;
using namespace shale;

/// Returns the options of a partitioned module that plans share: lowerToFused() applies
/// --reshard-after-forward.
static CompileOptions graphOptions(CompileOptions options) {
  options.reshardAfterForward = true;
  return options;
}

/// Options with equal keys give the same partitioned module.
static std::string graphKey(const CompileOptions &options) {
  return describeStages(graphOptions(options), StageId::Recover, StageId::Partition);
}

LogicalResult ModelPlanner::partition(const CompileOptions &options) {
  std::string key = graphKey(options);
  if (partitioned && key == partitionedFor)
    return success();
  partitioned = {};
  OwningOpRef<ModuleOp> module = recovered->clone();
  exitCode = runStages(*module, graphOptions(options), StageId::Recover, StageId::Partition);
  if (exitCode)
    return failure();
  partitioned = std::move(module);
  partitionedFor = key;
  return success();
}

FailureOr<ModelPlan> ModelPlanner::plan(const CompileOptions &options) {
  if (failed(partition(options)))
    return failure();
  exitCode = SHALE_EXIT_INTERNAL;
  OwningOpRef<ModuleOp> fused = lowerToFused(*partitioned, options, /*verify=*/true, &exitCode);
  if (!fused)
    return failure();
  return planFused(std::move(fused), options);
}

namespace {

/// Stores the first error of each thread's current plan; prints nothing.
class ErrorCatcher {
public:
  explicit ErrorCatcher(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          std::lock_guard<std::mutex> lock(mutex);
          std::string *wrong = current[llvm::get_threadid()];
          if (wrong && wrong->empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
            *wrong = diagnostic.str();
          return success();
        }) {}

  /// Stores this thread's next error in `wrong`; null: drops errors.
  void listen(std::string *wrong) {
    std::lock_guard<std::mutex> lock(mutex);
    current[llvm::get_threadid()] = wrong;
  }

private:
  std::mutex mutex;
  std::map<uint64_t, std::string *> current;
  ScopedDiagnosticHandler handler;
};

/// Reports the progress of a search that takes longer than three seconds.
class Progress {
public:
  Progress(size_t all, const ProgressReport &report)
      : all(all), report(report), next(Clock::now() + std::chrono::seconds(3)) {}

  void step() {
    std::lock_guard<std::mutex> lock(mutex);
    ++done;
    if (!report || Clock::now() < next || done == all)
      return;
    report(done, all);
    next = Clock::now() + std::chrono::seconds(5);
  }

private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  size_t all, done = 0;
  const ProgressReport &report;
  Clock::time_point next;
};

} // namespace

std::vector<PlanOrError> ModelPlanner::planAll(ArrayRef<CompileOptions> all, bool keepModules) {
  std::vector<PlanOrError> plans(all.size());
  MLIRContext *context = recovered.get().getContext();
  ErrorCatcher errors(context);
  Progress made(all.size(), progress);
  // Plans with equal graphKey share the partitioned module; of these, plans with equal fusedKey
  // share the fused one.
  std::map<std::string, std::map<std::string, std::vector<size_t>>> graphs;
  for (auto [index, options] : llvm::enumerate(all))
    graphs[graphKey(options)][fusedKey(options)].push_back(index);
  for (auto &[graph, groups] : graphs) {
    const CompileOptions &first = all[groups.begin()->second.front()];
    std::string wrong;
    errors.listen(&wrong);
    LogicalResult whole = partition(first);
    errors.listen(nullptr);
    if (failed(whole)) {
      for (auto &[key, indices] : groups)
        for (size_t index : indices) {
          plans[index].wrong = wrong;
          made.step();
        }
      continue;
    }
    std::vector<std::vector<size_t>> work;
    for (auto &[key, indices] : groups)
      work.push_back(indices);
    parallelForEach(context, work, [&](const std::vector<size_t> &indices) {
      std::string wrong;
      errors.listen(&wrong);
      OwningOpRef<ModuleOp> fused =
          lowerToFused(*partitioned, all[indices.front()], /*verify=*/false);
      ModuleOp lowered = fused.get(); // the last plan takes the module itself
      for (size_t index : indices) {
        PlanOrError &result = plans[index];
        if (lowered) {
          errors.listen(&result.wrong);
          OwningOpRef<ModuleOp> module(index == indices.back() ? fused.release() : lowered.clone());
          if (FailureOr<ModelPlan> plan =
                  planFused(std::move(module), all[index], /*verify=*/false);
              succeeded(plan)) {
            result.plan = std::move(*plan);
            if (!keepModules)
              result.plan->module = {};
          }
        } else {
          result.wrong = wrong;
        }
        made.step();
      }
      errors.listen(nullptr);
    });
  }
  return plans;
}

std::vector<ModelPlan> ModelPlanner::search(const CompileOptions &options) {
  std::vector<ModelPlan> plans;
  for (PlanOrError &each : planAll(candidates(options)))
    if (each.plan) // others are not possible on this machine; the first candidate was checked
      plans.push_back(std::move(*each.plan));
  // Ties are broken by less host memory, then less device memory, then by order: closer to
  // the typed flags first.
  llvm::stable_sort(plans, [](const ModelPlan &a, const ModelPlan &b) {
    return std::make_tuple(a.seconds, a.host(), a.device()) <
           std::make_tuple(b.seconds, b.host(), b.device());
  });
  return plans;
}

const ModelPlan *shale::fastestThatFits(ArrayRef<ModelPlan> plans, const MemoryLimit &limit) {
  for (const ModelPlan &plan : plans)
    if (plan.fits(limit))
      return &plan;
  return nullptr;
}

namespace {
/// Plans one batch size after another.
class BatchProbe {
public:
  BatchProbe(llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import,
             const CompileOptions &options, const MemoryLimit &limit, ProgressReport progress)
      : import(import), options(options), limit(limit), progress(std::move(progress)) {}

  /// Whether any plan fits. Keeps the flags of the smallest one that fits, for fits().
  bool fitsSomehow(int64_t batch) {
    OwningOpRef<ModuleOp> module = import(batch);
    if (!module)
      return false;
    const ModelPlan *smallest = nullptr;
    std::vector<ModelPlan> plans = ModelPlanner(std::move(module), progress).search(options);
    for (const ModelPlan &plan : plans)
      if (plan.fits(limit) && (!smallest || plan.size(limit) < smallest->size(limit)))
        smallest = &plan;
    if (smallest)
      flags = smallest->options;
    return smallest;
  }

  /// Whether the plan with the flags that `fitsSomehow` found fits: makes one plan, not all of
  /// them.
  bool fits(int64_t batch) {
    OwningOpRef<ModuleOp> module = import(batch);
    if (!module)
      return false;
    std::vector<PlanOrError> plan = ModelPlanner(std::move(module)).planAll(flags);
    return plan.front().plan && plan.front().plan->fits(limit);
  }

private:
  llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import;
  const CompileOptions &options;
  const MemoryLimit &limit;
  CompileOptions flags;
  ProgressReport progress;
};
} // namespace

int64_t shale::largestBatch(llvm::function_ref<OwningOpRef<ModuleOp>(int64_t)> import,
                            const CompileOptions &options, const MemoryLimit &limit, int64_t ranks,
                            ProgressReport progress) {
  BatchProbe probe(import, options, limit, std::move(progress));
  constexpr int64_t kMost = 1 << 20; // rows per rank
  int64_t rows = 0;
  // Finds the largest batch for one set of flags, then checks whether another set fits one more
  // row.
  while (rows < kMost && probe.fitsSomehow((rows + 1) * ranks)) {
    int64_t low = rows + 1, high = 2 * low;
    while (high <= kMost && probe.fits(high * ranks)) {
      low = high;
      high *= 2;
    }
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      (probe.fits(middle * ranks) ? low : high) = middle;
    }
    rows = low;
  }
  return rows * ranks;
}
