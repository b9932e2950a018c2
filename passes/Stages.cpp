//===- Stages.cpp - The stages of a compilation, in order -----------------===//
#include "passes/Stages.h"
#include "lib/Options/Flags.h"
#include "lib/Options/PassOptions.h"
#include "lib/Support/CrashHandler.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/annotate/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/import/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/program/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/sharding/Passes.h"
#include "shale/InitAll.h"
#include "shale/Runtime.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace shale;
using llvm::StringRef;
using mlir::OpPassManager;

/// The labels that flags bind stay bound.
static UnbindLabelsPassOptions unbindOptions(const CompileOptions &o) {
  UnbindLabelsPassOptions unbind;
  for (const auto &[input, binding] : o.binds)
    unbind.bound.push_back(input);
  return unbind;
}

static LowerProgramPassOptions programOptions(const CompileOptions &o) {
  LowerProgramPassOptions program;
  if (o.output.empty()) // a stage of shale-opt: paths stay as they are
    return program;
  bool given = o.typed.count("embed-path");
  StringRef folder = llvm::sys::path::parent_path(o.output);
  llvm::SmallString<128> real;
  if ((!given || o.embedPath == EmbedPath::Relative) &&
      !llvm::sys::fs::real_path(folder.empty() ? "." : folder, real))
    program.folder = real.str().str();
  program.relativePaths = given;
  if (o.memoryLimit.any()) {
    MemoryLimit limit = o.limit();
    program.hostLimit = limit.host.value_or(0);
    program.totalLimit = limit.sum.value_or(0);
  }
  return program;
}

/// Returns the stages of a compilation without inserted passes.
static std::vector<Stage> ownStages(const CompileOptions &o) {
  auto with = [&o](void (*build)(OpPassManager &, const CompileOptions &)) {
    return [&o, build](OpPassManager &pm) { build(pm, o); };
  };
  return {
      // Folds shape arithmetic, and restores ops that exporters decomposed.
      {StageId::Recover, "recover",
       [&o](OpPassManager &pm) {
         pm.addPass(createAnnotateTargetPass(optionsOf<AnnotateTargetPassOptions>(o)));
         buildImportPipeline(pm, o);
         // After recovery, because the pass reads the masks of nn.attention.
         pm.addPass(createUnbindLabelsPass(unbindOptions(o)));
       },
       SHALE_EXIT_DATA, Emit::NN, false, AfterStage::ChooseFlags},
      // Policies are attributes from here on. They come from flags, so a failure here is a usage
      // error.
      {StageId::Annotate, "annotate",
       [&o](OpPassManager &pm) {
         buildAnnotatePipeline(pm, o);
         if (o.mesh.hasAxisThat(dist::splitsValues))
           buildDivisionPipeline(pm);
       },
       SHALE_EXIT_USAGE, Emit::NN, false},
      // The whole training step is one function.
      {StageId::Autodiff, "autodiff", with(buildAutodiffPipeline), SHALE_EXIT_DATA, Emit::NN,
       false},
      // Values and state get the types that the flags specify.
      {StageId::Precision, "precision", with(buildPrecisionPipeline), SHALE_EXIT_DATA, Emit::NN,
       true},
      // Makes one rank's program. Sizes that do not divide are detected here; they come from flags.
      {StageId::Partition, "partition", with(buildShardingPipeline), SHALE_EXIT_USAGE, Emit::Dist,
       false, AfterStage::ReportNumerics},
      // Decides which values are kept and where. These policies come from flags.
      {StageId::Policies, "policies", with(buildMemoryPoliciesPipeline), SHALE_EXIT_USAGE,
       Emit::Dist, false},
      // Makes policies explicit. No CSE from here on: it would merge recomputed or re-gathered
      // values.
      {StageId::Memory, "memory", with(buildMemoryPipeline), SHALE_EXIT_INTERNAL, Emit::Dist, true},
      // Every op is part of a kernel or a call from here on. Fails for an op that this target
      // cannot compute.
      {StageId::Fusion, "fusion", [&o](OpPassManager &pm) { buildFusionPipeline(pm, o); },
       SHALE_EXIT_DATA, Emit::RT, false},
      // Fixes the order of ops.
      {StageId::Schedule, "schedule", with(buildSchedulePipeline), SHALE_EXIT_INTERNAL, Emit::RT,
       false},
      // Assigns every buffer an offset.
      {StageId::Plan, "plan", with(buildPlanPipeline), SHALE_EXIT_INTERNAL, Emit::RT, true,
       AfterStage::ReportPlan},
      {StageId::Codegen, "codegen",
       [&o](OpPassManager &pm) {
         pm.addPass(createGenerateKernelsPass());
         pm.addPass(createLowerProgramPass(programOptions(o)));
       },
       SHALE_EXIT_INTERNAL, Emit::LLVM, true},
  };
}

std::vector<Stage> shale::stagesFor(const CompileOptions &o) {
  std::vector<Stage> stages = ownStages(o);
  for (const auto &[after, passes] : o.inserted) {
    auto insert = [&passes = passes](OpPassManager &pm) {
      (void)mlir::parsePassPipeline(passes, pm); // checkInsertedPasses() reports errors
    };
    if (after == "import") // it has no passes: insert before the first stage
      stages.front().build = [insert, build = stages.front().build](OpPassManager &pm) {
        insert(pm);
        build(pm);
      };
    for (Stage &stage : stages)
      if (after == stage.name)
        stage.build = [insert, build = stage.build](OpPassManager &pm) {
          build(pm);
          insert(pm);
        };
  }
  return stages;
}

std::optional<int> shale::runStages(mlir::ModuleOp module, llvm::ArrayRef<Stage> stages,
                                    const StageHooks &hooks) {
  for (const Stage &stage : stages) {
    CrashStage running(std::string("running the passes of stage '") + stage.name + "'");
    mlir::PassManager manager(module.getContext());
    stage.build(manager);
    if (hooks.before)
      hooks.before(stage, manager);
    if (failed(manager.run(module)))
      return stage.exitCode;
    if (hooks.after)
      if (std::optional<int> code = hooks.after(stage))
        return code;
  }
  return std::nullopt;
}

std::string shale::namesOf(llvm::ArrayRef<Stage> stages) {
  std::string names = "import";
  for (const Stage &stage : stages)
    names += std::string(", ") + stage.name;
  return names;
}

std::string shale::describeStage(const Stage &stage) {
  OpPassManager manager(mlir::ModuleOp::getOperationName());
  stage.build(manager);
  std::string text;
  llvm::raw_string_ostream os(text);
  manager.printAsTextualPipeline(os);
  return text;
}

std::string shale::checkInsertedPasses(const CompileOptions &options) {
  std::vector<Stage> stages = ownStages(options);
  for (const auto &[after, passes] : options.inserted) {
    auto isAfter = [&after = after](const Stage &stage) { return after == stage.name; };
    if (after != "import" && llvm::none_of(stages, isAfter))
      return "stage '" + after + "' is not one of " + namesOf(stages);
    std::string message;
    llvm::raw_string_ostream os(message);
    OpPassManager manager(mlir::ModuleOp::getOperationName());
    if (failed(mlir::parsePassPipeline(passes, manager, os)))
      return (StringRef(message).rtrim() +
              (options.plugins.empty() ? "; --load-pass-plugin=FILE adds passes" : ""))
          .str();
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Stages as pipelines of shale-opt
//===----------------------------------------------------------------------===//

/// Splits the options of a pipeline at spaces outside of braces and quotes.
static llvm::SmallVector<StringRef> splitOptions(StringRef text) {
  llvm::SmallVector<StringRef> words;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ' ';
    if (quote || c == '"' || c == '\'')
      quote = !quote ? c : c == quote ? 0 : quote;
    else if (c == '{' || c == '}')
      depth += c == '{' ? 1 : -1;
    if (i < text.size() && (quote || depth > 0 || !llvm::isSpace(c)))
      continue;
    if (i > begin)
      words.push_back(text.slice(begin, i));
    begin = i + 1;
  }
  return words;
}

/// Sets flags from the options of a pipeline. Returns what is wrong, or an empty string.
static std::string setOptions(CompileOptions &options, StringRef text) {
  for (StringRef word : splitOptions(text)) {
    auto [name, value] = word.split('=');
    for (StringRef ends : {"{}", "\"\"", "''"})
      if (value.size() > 1 && value.front() == ends[0] && value.back() == ends[1]) {
        value = value.drop_front().drop_back();
        break;
      }
    const Flag *flag = flagNamed(name);
    bool ofRecover = name == "target" || name == "no-recover"; // their effect is on the import
    if (!flag || name == "insert-pass" || (!flag->changesPlan() && !ofRecover))
      return ("'" + name + "' is not a flag of shalec that changes a stage").str();
    if (std::string wrong = flag->set(options, value); !wrong.empty())
      return ("'" + name + "': " + wrong).str();
    options.typed.insert(name.str());
  }
  options.chooseShard();
  return "";
}

void shale::registerStages() {
  registerAllTargets(); // flags name them
  CompileOptions defaults;
  for (const Stage &stage : ownStages(defaults)) {
    auto build = [id = stage.id](OpPassManager &pm, StringRef text, auto error) {
      CompileOptions options;
      options.threads = 1; // not those of this machine
      if (std::string wrong = setOptions(options, text); !wrong.empty())
        return error(wrong);
      for (const Stage &each : ownStages(options))
        if (each.id == id)
          each.build(pm);
      return mlir::success();
    };
    mlir::registerPassPipeline(
        std::string("shale-stage-") + stage.name,
        std::string("The stage ") + stage.name + "; options: flags of shalec", build, [](auto) {});
  }
}
