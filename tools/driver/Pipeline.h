//===- Pipeline.h - The stages of a compilation, in order -----------------===//
#ifndef SHALE_DRIVER_PIPELINE_H
#define SHALE_DRIVER_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "tools/driver/Options.h"
#include <functional>
#include <vector>

namespace shale {

/// A stage: its passes, and the exit code if it fails.
struct Stage {
  const char *name; ///< for messages and the files of --save-temps
  std::function<void(mlir::OpPassManager &)> build;
  int exitCode;
  Emit level; ///< level of the IR that the stage produces
  bool last;  ///< last stage of its level: `--emit` of this level ends here
};

/// The stages from imported `nn` to the LLVM dialect, with the passes of --insert-pass. `options`
/// must outlive them.
std::vector<Stage> stagesFor(const CompileOptions &options);

/// Returns the passes of a stage with their options, as text for --pass-pipeline.
std::string describeStage(const Stage &stage);

/// Checks stages and passes of --insert-pass. Passes must be registered. Returns an exit code.
int checkInsertedPasses(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_PIPELINE_H
