//===- StageFiles.h - What a compilation writes after its stages ----------===//
#ifndef SHALE_DRIVER_STAGEFILES_H
#define SHALE_DRIVER_STAGEFILES_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Stages.h"

namespace shale {

/// Writes dumps of --save-temps, numbered by stage, and what flags ask of passes: IR, kernels,
/// crash reproducers.
class StageFiles {
public:
  /// `number`: that of the next dump. `before`: the dump that the compilation continues from, or
  /// "".
  StageFiles(const CompileOptions &options, int number, std::string before)
      : options(options), number(number), lastDump(std::move(before)) {}

  /// Adds to the passes of a stage what flags ask for.
  void instrument(const Stage &stage, mlir::PassManager &manager);

  /// Returns the exit code of what instrumented passes could not write, or 0.
  int error() const { return saved ? saved : reported; }

  /// Writes the dump of a stage. `passes`: those of the stage; empty for the imported module.
  /// `chosen`: whether the planner has chosen flags. Returns an exit code.
  int save(mlir::ModuleOp module, llvm::StringRef stage, std::string passes, bool chosen);

private:
  /// Returns the path prefix of the files that the current stage writes.
  std::string path(llvm::StringRef name) const;

  const CompileOptions &options;
  int number;
  std::string lastDump; // the file of the module before the current stage
  int saved = 0, reported = 0;
};

} // namespace shale

#endif // SHALE_DRIVER_STAGEFILES_H
