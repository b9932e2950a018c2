//===- ModelPlan.h - The plan of one rank's program -----------------------===//
//
// Runs memory -> fusion -> schedule -> plan on a clone, without side effects: the
// same module and flags give the same plan. The search over flags, advice and
// tables of plans are built on this.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PLANNING_MODELPLAN_H
#define SHALE_PLANNING_MODELPLAN_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/TimeModel.h"
#include "lib/Support/ByteSize.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Stages.h"

namespace shale {

struct ModelPlan {
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< in the rt dialect; null once it is not needed
  ProgramSummary summary;
  double seconds = 0; ///< predicted time per step, for ordering plans

  /// Planned bytes per rank, fixed costs included, by memory space.
  int64_t device() const;
  int64_t host() const;
  /// The bytes that the limit bounds: device and host together, or the device's.
  int64_t size(const MemoryLimit &limit) const { return limit.sum ? device() + host() : device(); }
  bool fits(const MemoryLimit &limit) const;
};

/// Runs the stages after `from`, up to and including `to`. Returns the exit code of the stage that
/// fails, or 0.
int runStages(mlir::ModuleOp module, const CompileOptions &options, StageId from, StageId to,
              bool verify = true);

/// Returns the passes that runStages runs, with their options: equal texts give equal modules.
/// Plans share work by it, so that no flag can be forgotten.
std::string describeStages(const CompileOptions &options, StageId from, StageId to);

/// The first half of planning: returns a clone of `partitioned` with memory policies
/// materialized and ops fused; null after an error, with the exit code in `exitCode`.
/// Options with equal `fusedKey` give the same result from one partitioned module. Both halves may
/// run on several threads at once. Without `verify`, IR is not verified after each pass, which
/// takes a fifth of the time: for searches over many plans, where the chosen plan is made again.
mlir::OwningOpRef<mlir::ModuleOp> lowerToFused(mlir::ModuleOp partitioned,
                                               const CompileOptions &options, bool verify = true,
                                               int *exitCode = nullptr);
std::string fusedKey(const CompileOptions &options);

/// The second half of planning: schedules ops and assigns buffer offsets. Takes the module.
mlir::FailureOr<ModelPlan> planFused(mlir::OwningOpRef<mlir::ModuleOp> fused,
                                     const CompileOptions &options, bool verify = true);

} // namespace shale

#endif // SHALE_PLANNING_MODELPLAN_H
