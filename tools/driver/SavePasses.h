//===- SavePasses.h - The module after each pass, as files ----------------===//
#ifndef SHALE_DRIVER_SAVEPASSES_H
#define SHALE_DRIVER_SAVEPASSES_H

#include "mlir/Pass/PassManager.h"

namespace shale {

/// Makes `manager` write the whole module after each of its passes to
/// PREFIX-NN-PASS.mlir. The context must not run passes in threads. Where a file
/// cannot be written this says so, writes no more and sets `code`, which is 0, to the
/// exit code; the passes go on.
void savePasses(mlir::PassManager &manager, llvm::StringRef prefix, int &code);

} // namespace shale

#endif // SHALE_DRIVER_SAVEPASSES_H
