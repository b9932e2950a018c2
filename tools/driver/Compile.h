//===- Compile.h - From an ONNX file to a training program ----------------===//
#ifndef SHALE_DRIVER_COMPILE_H
#define SHALE_DRIVER_COMPILE_H

#include "lib/Options/Options.h"

namespace shale {

/// Runs the compilation that `options` describe, prints diagnostics to standard
/// error and the summary to standard output. Returns the exit code
/// (include/shale/Runtime.h). No output file is left half-written.
int compile(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_COMPILE_H
