//===- Outputs.h - The files that a compilation writes --------------------===//
#ifndef SHALE_DRIVER_OUTPUTS_H
#define SHALE_DRIVER_OUTPUTS_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Checks that no output is the same file as the model, a file of its weights or another
/// output, under any path, and that a program is not written to standard output. Weights are
/// the files that `module` refers to; it is null before the model is read. Reports errors and
/// returns an exit code.
int checkOutputs(const CompileOptions &options, mlir::ModuleOp module);

/// Writes a file atomically: it appears complete or not at all; "-" is standard output. An
/// existing pipe, device or other special file is written to rather than replaced. Reports
/// errors and returns an exit code.
int writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace shale

#endif // SHALE_DRIVER_OUTPUTS_H
