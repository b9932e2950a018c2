//===- PlanFirst.h - Planning before a program is compiled ----------------===//
#ifndef SHALE_DRIVER_PLANFIRST_H
#define SHALE_DRIVER_PLANFIRST_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Prints how many plans a long search has made.
void printProgress(size_t done, size_t all);

/// Checks each flag that concerns planning. Returns an exit code.
int checkPlanOptions(const CompileOptions &options);

/// Under a memory limit, chooses the flags that were not typed; with
/// --plan-only and --compare prints plans and sets `stop`. Does not change
/// `recovered`. Returns an exit code; 78 if no plan fits.
int planFirst(mlir::ModuleOp recovered, CompileOptions &options, bool &stop);

/// Writes the reports that `options` request. Returns an exit code.
int writeReports(mlir::ModuleOp planned, const ProgramSummary &summary,
                 const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_PLANFIRST_H
