//===- Pipeline.h - The stages of a compilation, in order -----------------===//
#ifndef SHALE_DRIVER_PIPELINE_H
#define SHALE_DRIVER_PIPELINE_H

#include "lib/Driver/Options.h"
#include "mlir/Pass/PassManager.h"
#include <functional>
#include <vector>

namespace shale {

/// One stage: a name for messages and for the files of --save-temps, the passes,
/// and the exit code when it fails for a reason that lies with the user.
struct Stage {
  const char *name;
  std::function<void(mlir::OpPassManager &)> build;
  int exitCode;
  /// Compilations that go no further than `last` end after this stage.
  Emit last;
};

/// The stages from imported `nn` to LLVM IR for these options.
std::vector<Stage> stagesFor(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_PIPELINE_H
