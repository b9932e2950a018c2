//===- Mutate.h - Tests that deleted collectives are detected -------------===//
#ifndef SHALE_INTERPRETER_MUTATE_H
#define SHALE_INTERPRETER_MUTATE_H

#include "lib/Interpreter/Compare.h"

namespace shale::interp {

/// Deletes the collectives of the module one at a time, replacing the received
/// value by the rank's own data, and the copies and waits of a planned program.
/// Each resulting program must be rejected by a verifier or by the interpreter,
/// or have other results than the module. Writes a line for each deletion that
/// is not detected and one with the counts. Fails if a deletion is not detected
/// or if there is nothing to delete.
mlir::LogicalResult mutateModule(mlir::ModuleOp module, const CompareOptions &options,
                                 llvm::raw_ostream &report);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_MUTATE_H
