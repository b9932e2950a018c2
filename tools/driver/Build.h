//===- Build.h - From the LLVM dialect to a program -----------------------===//
#ifndef SHALE_DRIVER_BUILD_H
#define SHALE_DRIVER_BUILD_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

class Target;

/// The shared libraries that --bundle copied beside the program: their number and bytes.
struct Built {
  int64_t libraries = 0, libraryBytes = 0;
};

/// Writes the object file, then the program that --emit asks for; the output appears complete or
/// not at all. Reports errors and returns an exit code.
int buildProgram(mlir::ModuleOp module, const Target &target, const CompileOptions &options,
                 Built &result);

} // namespace shale

#endif // SHALE_DRIVER_BUILD_H
