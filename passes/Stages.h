//===- Stages.h - The stages of a compilation, in order -------------------===//
#ifndef SHALE_PASSES_STAGES_H
#define SHALE_PASSES_STAGES_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include <functional>
#include <optional>
#include <vector>

namespace shale {

/// The stages in order. Import has no passes.
enum class StageId {
  Import,
  Recover,
  Annotate,
  Autodiff,
  Precision,
  Partition,
  Policies,
  Memory,
  Fusion,
  Schedule,
  Plan,
  Codegen
};

/// What a compilation does with the module after a stage, besides dumping it.
enum class AfterStage {
  Nothing,
  ChooseFlags, ///< the module is the model that is trained: check it, and make plans if flags ask
  ReportNumerics, ///< it is fixed where a gradient is rounded and reduced; later its name is lost
  ReportPlan,     ///< codegen drops the information of the plan
};

/// A stage: its passes, the exit code if it fails, and what follows it.
struct Stage {
  StageId id;
  const char *name; ///< for messages and the files of --save-temps
  std::function<void(mlir::OpPassManager &)> build;
  int exitCode;
  Emit level; ///< level of the IR that the stage produces
  bool last;  ///< last stage of its level: `--emit` of this level ends here
  AfterStage after = AfterStage::Nothing;
};

/// What runStages() calls around the passes of each stage.
struct StageHooks {
  /// Before the passes run. May change their manager.
  std::function<void(const Stage &, mlir::PassManager &)> before;
  /// After the passes succeed. A returned exit code ends the run.
  std::function<std::optional<int>(const Stage &)> after;
};

/// The stages from imported `nn` to the LLVM dialect, with the passes of --insert-pass. `options`
/// must outlive them.
std::vector<Stage> stagesFor(const CompileOptions &options);

/// Runs stages in order. Returns the exit code of the stage that fails or of the hook that ends the
/// run; nothing if all stages ran.
std::optional<int> runStages(mlir::ModuleOp module, llvm::ArrayRef<Stage> stages,
                             const StageHooks &hooks);

/// Returns the names of the stages, import included, separated by commas.
std::string namesOf(llvm::ArrayRef<Stage> stages);

/// Returns the passes of a stage with their options, as text for --pass-pipeline.
std::string describeStage(const Stage &stage);

/// Checks stages and passes of --insert-pass. Passes must be registered. Returns what is wrong, or
/// an empty string.
std::string checkInsertedPasses(const CompileOptions &options);

/// Registers each stage as a pipeline of shale-opt, shale-stage-NAME. Its options are flags of
/// shalec that change the program: --shale-stage-schedule="prefetch=2 max-gathers-in-flight=3".
void registerStages();

} // namespace shale

#endif // SHALE_PASSES_STAGES_H
