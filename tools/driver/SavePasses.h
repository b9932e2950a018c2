//===- SavePasses.h - Writes the module after each pass to a file ---------===//
#ifndef SHALE_DRIVER_SAVEPASSES_H
#define SHALE_DRIVER_SAVEPASSES_H

#include "mlir/Pass/PassManager.h"

namespace shale {

struct CompileOptions;

/// Makes `manager` write the whole module after each of its passes to
/// PREFIX-NN-PASS.mlir. A file begins with the command that repeats its pass, from the file
/// before it; for the first one that is `before`. The context must not run passes in threads. If a
/// file cannot be written, reports the error, writes no further files and sets `code`, which must
/// be 0 before, to the exit code; the passes continue.
void savePasses(mlir::PassManager &manager, llvm::StringRef prefix, llvm::StringRef before,
                const CompileOptions &options, int &code);

} // namespace shale

#endif // SHALE_DRIVER_SAVEPASSES_H
