//===- ModelPlanner.h - Plans of one model under many flags ---------------===//
#ifndef SHALE_PLANNING_MODELPLANNER_H
#define SHALE_PLANNING_MODELPLANNER_H

#include "lib/Planning/Candidates.h"
#include "lib/Planning/ModelPlan.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>

namespace shale {

/// A plan, or the message of the first error.
struct PlanOrError {
  std::optional<ModelPlan> plan;
  std::string wrong;
};

/// Reports the progress of a long search: the number of plans that are made, and of all. One thread
/// at a time calls it.
using ProgressReport = std::function<void(size_t done, size_t all)>;

/// Plans clones of a module after the recover stage. Keeps the last partitioned module:
/// plans that differ only after partition share it.
class ModelPlanner {
public:
  explicit ModelPlanner(mlir::OwningOpRef<mlir::ModuleOp> recovered, ProgressReport progress = {})
      : recovered(std::move(recovered)), progress(std::move(progress)) {}

  /// Makes one plan; fails after an error.
  mlir::FailureOr<ModelPlan> plan(const CompileOptions &options);

  /// Makes the plans of all options on all CPUs and returns them in the same order; prints no
  /// errors. Without `keepModules` the
  /// plans' modules are dropped.
  std::vector<PlanOrError> planAll(llvm::ArrayRef<CompileOptions> all, bool keepModules = false);

  /// Returns the plans for all values of the flags that were not typed, fastest first. The
  /// memory limit is not considered. The plans' modules are dropped.
  std::vector<ModelPlan> search(const CompileOptions &options);

  /// Exit code of the stage in which the last plan failed.
  int exitCode = 0;

private:
  mlir::LogicalResult partition(const CompileOptions &options);

  mlir::OwningOpRef<mlir::ModuleOp> recovered, partitioned;
  std::string partitionedFor;
  ProgressReport progress;
};

/// Returns the largest batch size, a multiple of `ranks`, whose plan fits the limit; 0 if
/// none fits. `import` returns the recovered module for a batch size, or null.
int64_t largestBatch(llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(int64_t)> import,
                     const CompileOptions &options, const MemoryLimit &limit, int64_t ranks,
                     ProgressReport progress = {});

/// Returns the fastest of `plans` (fastest first) that fits, or null.
const ModelPlan *fastestThatFits(llvm::ArrayRef<ModelPlan> plans, const MemoryLimit &limit);

/// Prints why no plan fits: which memory is too small, what is live at the peak of the
/// smallest plan, the smallest limit that can be met, and which flags would lower it.
void explainNoFit(ModelPlanner &planner, const CompileOptions &options,
                  llvm::ArrayRef<ModelPlan> plans, const MemoryLimit &limit, llvm::raw_ostream &os);

/// Prints the parts of the peak, and the changes that would lower it or make the step faster.
void printVerdict(ModelPlanner &planner, const ModelPlan &plan, llvm::raw_ostream &os);

/// Returns the plans that differ from `plan` in one flag.
std::vector<ModelPlan> neighbours(ModelPlanner &planner, const ModelPlan &plan,
                                  bool keepModules = false);
/// Prints one line: flags, bytes, flops and time of `to` compared with `from`.
void printChange(const ModelPlan &from, const ModelPlan &to, llvm::raw_ostream &os);

/// Prints which op makes a tensor, which op keeps it alive at the peak, and what other
/// choices would cost. `name` is a tensor's name in the report or a source node. Returns false if
/// there is none.
bool printWhy(ModelPlanner &planner, const ModelPlan &plan, llvm::StringRef name,
              llvm::raw_ostream &os);

/// Prints a table of plans, one for each combination of the values of --compare.
void printComparison(ModelPlanner &planner, const CompileOptions &options, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_PLANNING_MODELPLANNER_H
