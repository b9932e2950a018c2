//===- Mutate.h - Programs without one of their collectives ---------------===//
#ifndef SHALE_INTERPRETER_MUTATE_H
#define SHALE_INTERPRETER_MUTATE_H

#include "lib/Interpreter/Compare.h"

namespace shale::interp {

/// Deletes every single collective of the module in turn, putting what the rank
/// has itself in place of what it would receive, and every wait of a planned
/// program. Each such program must be refused by a verifier or by the
/// interpreter, or compute something else than the module does. Writes a line
/// for each that goes unnoticed and one with the counts; fails if there is one,
/// or if there was nothing to delete.
mlir::LogicalResult mutateModule(mlir::ModuleOp module,
                                 const CompareOptions &options,
                                 llvm::raw_ostream &report);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_MUTATE_H
