//===- Numerics.h - The float types of each parameter's training ----------===//
#ifndef SHALE_ANALYSIS_NUMERICS_H
#define SHALE_ANALYSIS_NUMERICS_H

#include "lib/Analysis/Report.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Writes the report of `--report numerics`, as text or JSON, for one rank's program
/// after the partition pass. For each trained parameter it lists the types in which the
/// parameter is stored and used and in which its gradient is computed, accumulated,
/// reduced and applied, in execution order. Micro-batches before the last are included.
void reportNumerics(mlir::ModuleOp module, ReportForm form, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_NUMERICS_H
