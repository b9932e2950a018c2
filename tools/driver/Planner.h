//===- Planner.h - Plans of one model under many flags --------------------===//
#ifndef SHALE_DRIVER_PLANNER_H
#define SHALE_DRIVER_PLANNER_H

#include "tools/driver/Knobs.h"
#include "tools/driver/Lower.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// A plan, or the first error.
struct PlanOrError {
  std::optional<Plan> plan;
  std::string wrong;
};

/// Plans clones of a recovered module. Keeps the last partitioned one: plans that
/// differ in what comes after partition share it.
class Planner {
public:
  explicit Planner(mlir::OwningOpRef<mlir::ModuleOp> recovered) : recovered(std::move(recovered)) {}

  /// Fails after an error.
  mlir::FailureOr<Plan> plan(const CompileOptions &options);

  /// Plans of all options, in their order, made on all CPUs; says nothing of errors. What takes
  /// longer than a few seconds tells of its progress. Without `keepModules` their modules are gone.
  std::vector<PlanOrError> planAll(llvm::ArrayRef<CompileOptions> all, bool keepModules = false);

  /// All plans that the flags leave open, fastest first: the order in which they are taken
  /// knows no limit. Their modules are gone.
  std::vector<Plan> search(const CompileOptions &options);

  /// Exit code of the stage in which the last plan failed.
  int exitCode = 0;

private:
  mlir::LogicalResult partition(const CompileOptions &options);

  mlir::OwningOpRef<mlir::ModuleOp> recovered, partitioned;
  std::string partitionedFor;
};

/// The largest multiple of `ranks` that `import` (a recovered module for a batch,
/// or null) can be planned for within the limit; 0 if none fits.
int64_t largestBatch(llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(int64_t)> import, const CompileOptions &options,
                     const MemoryLimit &limit, int64_t ranks);

/// The fastest of `plans` (fastest first) that fits, or null.
const Plan *fastestThatFits(llvm::ArrayRef<Plan> plans, const MemoryLimit &limit);

/// Says why nothing fits: which memory, what is live at the peak of the smallest plan, the
/// smallest limit that can be met, and which flags would lower it.
void explainNoFit(Planner &planner, const CompileOptions &options, llvm::ArrayRef<Plan> plans, const MemoryLimit &limit,
                  llvm::raw_ostream &os);

/// What the peak is made of, and the changes that would lower it or speed it up.
void printVerdict(Planner &planner, const Plan &plan, llvm::raw_ostream &os);

/// Every plan that differs from `plan` in one flag.
std::vector<Plan> neighbours(Planner &planner, const Plan &plan, bool keepModules = false);
/// One line: flags, bytes, flops and time of `to` beside `from`.
void printChange(const Plan &from, const Plan &to, llvm::raw_ostream &os);

/// Who makes a tensor, who keeps it alive at the peak, and what other choices
/// would cost. `name` is a tensor's name in the report or a source node.
/// Returns false after saying that there is none.
bool printWhy(Planner &planner, const Plan &plan, llvm::StringRef name, llvm::raw_ostream &os);

/// A table of plans, one for each combination of the flags that `list` names
/// ("shard,recompute"). Returns what is wrong with the list, or an empty string.
std::string printComparison(Planner &planner, const CompileOptions &options, llvm::StringRef list, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_DRIVER_PLANNER_H
