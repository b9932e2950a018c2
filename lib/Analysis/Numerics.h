//===- Numerics.h - In which types each parameter is trained --------------===//
#ifndef SHALE_ANALYSIS_NUMERICS_H
#define SHALE_ANALYSIS_NUMERICS_H

#include "lib/Analysis/Report.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Writes, for each trained parameter of one rank's program as partition leaves it, every
/// type in which it is kept and used and its gradient computed, accumulated, reduced
/// and applied, in the order in which this happens, micro-batches before the last
/// included: `--report numerics`, as text or JSON.
void reportNumerics(mlir::ModuleOp module, ReportForm form, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_NUMERICS_H
