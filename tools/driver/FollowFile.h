//===- FollowFile.h - Flags that follow from the model's file -------------===//
#ifndef SHALE_DRIVER_FOLLOWFILE_H
#define SHALE_DRIVER_FOLLOWFILE_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

class Target;

/// Takes the file's 16-bit type for --param-dtype, unless that flag is given. Returns whether it
/// did.
bool adoptFileType(CompileOptions &options, mlir::ModuleOp imported);

/// Takes the file's 16-bit type, and prints notes and warnings about it.
void followFileType(CompileOptions &options, mlir::ModuleOp imported, const Target &target);

/// Takes the optimizer of the model's file, if it has one. Prints an error if a flag contradicts
/// it. Returns an exit code.
int followFileOptimizer(CompileOptions &options, mlir::ModuleOp imported);

} // namespace shale

#endif // SHALE_DRIVER_FOLLOWFILE_H
