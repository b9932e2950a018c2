//===- Outputs.h - The files that a compilation writes --------------------===//
#ifndef SHALE_DRIVER_OUTPUTS_H
#define SHALE_DRIVER_OUTPUTS_H

#include "tools/driver/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Checks that nothing that is written is the model, a file of its weights or another
/// output, by whatever name, and that a program goes to a regular file. Weights are those
/// that `module` refers to; before the model is read it is null. Says what is wrong and
/// returns an exit code.
int checkOutputs(const CompileOptions &options, mlir::ModuleOp module);

/// Writes a file, which appears whole or not at all; "-" is standard output. What is there
/// and is no regular file (a pipe, a device) is written to rather than replaced. Says what
/// is wrong and returns an exit code.
int writeOutput(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace shale

#endif // SHALE_DRIVER_OUTPUTS_H
