//===- Numerics.h - In which types each parameter is trained --------------===//
#ifndef SHALE_ANALYSIS_NUMERICS_H
#define SHALE_ANALYSIS_NUMERICS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Writes, for each trained parameter of a step after the precision stage, every
/// type in which it is kept and used and its gradient computed, accumulated,
/// reduced and applied: `--report numerics`.
void reportNumerics(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_NUMERICS_H
