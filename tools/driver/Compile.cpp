//===- Compile.cpp - From an ONNX file to a training program --------------===//
#include "tools/driver/Compile.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Describe.h"
#include "lib/Analysis/Numerics.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Planning/ModelPlanner.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Link.h"
#include "lib/Target/Target.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Stages.h"
#include "passes/memory/Passes.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "tools/driver/Build.h"
#include "tools/driver/CommandLine.h"
#include "tools/driver/Dumps.h"
#include "tools/driver/FollowFile.h"
#include "tools/driver/Import.h"
#include "tools/driver/Interrupt.h"
#include "tools/driver/Messages.h"
#include "tools/driver/Outputs.h"
#include "tools/driver/PlanFirst.h"
#include "tools/driver/StageFiles.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace shale;

//===----------------------------------------------------------------------===//
// The context, and what its diagnostics say
//===----------------------------------------------------------------------===//

namespace {
/// The context of a compilation. Prints its diagnostics.
class DiagnosedContext {
public:
  explicit DiagnosedContext(const CompileOptions &options) : model(options.model) {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    if (options.savePasses || options.printPasses || !options.crashReproducer.empty())
      context.disableMultithreading();
    context.printOpOnDiagnostic(false); // it may be the whole program
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      print(diagnostic);
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && !cause)
        cause = exitCodeOf(diagnostic);
      return success();
    });
  }

  MLIRContext context;
  std::optional<Rates> machine; ///< of the file of --machine
  std::optional<int> cause;     ///< of the first error with an exit code of its own

private:
  /// Prints a diagnostic, and one that is not an error only once: plans are made before and beside
  /// the program and repeat it.
  void print(Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printDiagnostic(diagnostic, model, os);
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error || said.insert(text).second)
      llvm::errs() << text;
  }

  std::string model;
  llvm::StringSet<> said;
};
} // namespace

//===----------------------------------------------------------------------===//
// Flags, before the model is read
//===----------------------------------------------------------------------===//

/// Returns an exit code.
static int loadPlugins(MLIRContext &context, const CompileOptions &options) {
  DialectRegistry registry;
  for (const std::string &path : options.plugins)
    if (llvm::Error wrong = loadPlugin(path, registry)) {
      llvm::errs() << "shalec: error: " << llvm::toString(std::move(wrong)) << "\n";
      return SHALE_EXIT_UNAVAILABLE;
    }
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  return SHALE_EXIT_OK;
}

/// Sets the machine whose rates predict times, unless --machine names a known one. `machine`: the
/// rates of a file, which must outlive the options. Returns an exit code.
static int chooseMachine(CompileOptions &options, const Target &target,
                         std::optional<Rates> &machine) {
  if (!options.machineFile.empty()) {
    ToolError wrong;
    machine = readMachine(options.machineFile, wrong);
    if (!machine) {
      llvm::errs() << "shalec: error: --machine: " << wrong.message << "\n";
      return wrong.exitCode;
    }
    options.machine = &*machine;
  }
  if (!options.machine)
    options.machine = &target.getRates();
  return SHALE_EXIT_OK;
}

static void noteStrategy(const CompileOptions &options) {
  if (options.describe)
    return;
  if (options.gathersUnits() && !options.typed.count("shard"))
    llvm::errs()
        << "shalec: note: using --shard full, because the mesh has a shard axis; --shard none selects DDP\n";
  if (options.typed.count("shard") && options.mesh.ranks() == 1 && options.shard != Sharding::None)
    llvm::errs() << "shalec: note: --shard splits nothing on one rank; --mesh fsdp=N compiles for "
                    "N ranks\n";
}

/// Checks the flags. Returns an exit code.
static int checkAll(const CompileOptions &options, const Target &target,
                    onnx::ImportOptions &import) {
  if (int code = readImportOptions(options, import))
    return code;
  if (int code = checkPlanOptions(options))
    return code;
  if (int code = checkFlags(options, target))
    return code;
  return checkOutputs(options, {});
}

/// Whether the compilation ends after a stage with its IR.
static bool emits(const CompileOptions &options, const Stage &stage) {
  return stage.last && stage.level == options.emit;
}

/// Checks that a dump can be continued. Sets `done` to the number of stages up to the dump's.
/// Returns an exit code.
static int placeDump(ModuleOp dump, const CompileOptions &options, const Target &target,
                     ArrayRef<Stage> stages, size_t &done) {
  if (options.compileFrom != "import") {
    done = llvm::find_if(stages, [&](const Stage &s) { return options.compileFrom == s.name; }) -
           stages.begin() + 1;
    if (done > stages.size())
      return usageError("--compile-from: '" + options.compileFrom + "' is not one of " +
                        namesOf(stages));
  }
  auto made = dump->getAttrOfType<StringAttr>(nn::kTargetAttr);
  if (made && made.getValue() != target.getName())
    return usageError("--target: " + options.model + " was made for " + made.str() +
                      ", and this command compiles for " + target.getName().str() +
                      "; give --target " + made.str());
  if (options.emit < Emit::Object && llvm::none_of(
                                         stages.drop_front(std::max<size_t>(done, 1) - 1),
                                         [&](const Stage &s) { return emits(options, s); }))
    return usageError("--emit: no stage from " + options.compileFrom + " on makes this IR");
  if (options.describe)
    return usageError("--describe needs the model, not a dump: leave --compile-from out");
  return SHALE_EXIT_OK;
}

//===----------------------------------------------------------------------===//
// The stages
//===----------------------------------------------------------------------===//

/// Writes the module's text to `path` ("-" is standard output).
static int writeText(ModuleOp module, StringRef path) {
  return writeOutput(path, [&](raw_ostream &os) {
    printModule(module, path == "-" ? 64 : std::numeric_limits<int64_t>::max(), os);
  });
}

/// Refuses a model that this target cannot compute, before plans are made: parameters of another
/// type, and all ops of the forward graph without a kernel, in one error. Returns an exit code.
static int checkLowering(ModuleOp module, const CompileOptions &options) {
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getTensorType().getElementType().isF64()) {
      emitError(state.getLoc()) << "parameter '" << state.getSymName()
                                << "' is f64, and programs compute in f32: export model.float()";
      return SHALE_EXIT_DATA;
    }
  ScopedDiagnosticHandler errorsOnly(module.getContext(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  OwningOpRef<ModuleOp> trial = module.clone();
  return runStages(*trial, options, StageId::Memory, StageId::Fusion);
}

/// Writes the reports of a partitioned module. Returns an exit code.
static int writeNumerics(ModuleOp partitioned, const CompileOptions &options) {
  for (const Report &report : options.reports)
    if (report.kind == ReportKind::Numerics)
      if (int code = writeOutput(report.file(), [&](raw_ostream &os) {
            reportNumerics(partitioned, reportFormOf(report.file()), os);
          }))
        return code;
  return SHALE_EXIT_OK;
}

/// The same for a plan without a program, whose stages ran on clones.
static int reportNumericsOfPlan(ModuleOp module, const CompileOptions &options) {
  if (llvm::none_of(options.reports,
                    [](const Report &report) { return report.kind == ReportKind::Numerics; }))
    return SHALE_EXIT_OK;
  if (int code = runStages(module, options, StageId::Recover, StageId::Partition))
    return code;
  return writeNumerics(module, options);
}

namespace {
/// The stages of one compilation, and what follows each.
class StageRun {
public:
  /// `done`: the number of stages that made the module.
  StageRun(CompileOptions &options, ArrayRef<Stage> stages, size_t done, Imported &model)
      : options(options), stages(stages), done(done), model(model), module(*model.module),
        files(options, options.compileFrom.empty() ? 1 : done + 2,
              options.compileFrom.empty() ? "" : options.model),
        chosen(llvm::any_of(stages.take_front(std::max<size_t>(done, 1) - 1), choosesFlags)) {}

  /// Runs the stages that are left. Returns an exit code if the compilation ends with one of them.
  std::optional<int> run() {
    if (done > 0 && stages[done - 1].after == AfterStage::ReportPlan && !summarize())
      return SHALE_EXIT_DATA;
    if (options.compileFrom.empty())
      if (int code = files.save(module, "import", "", chosen))
        return code;
    if (done > 0)
      if (std::optional<int> code = continueAfter(stages[done - 1]))
        return *code;
    StageHooks hooks;
    hooks.before = [this](const Stage &stage, PassManager &manager) {
      files.instrument(stage, manager);
    };
    hooks.after = [this](const Stage &stage) -> std::optional<int> {
      if (int code = writeResults(stage))
        return code;
      return continueAfter(stage);
    };
    return runStages(module, stages.drop_front(done), hooks);
  }

  /// Prints the plan of the program, and what other flags would change.
  void printPlan(raw_ostream &os) {
    if (summary) // none for a dump after codegen
      printSummary(*summary, os);
    if (planner)
      if (FailureOr<ModelPlan> plan = planner->plan(options); succeeded(plan))
        printVerdict(*planner, *plan, os);
  }

private:
  static bool choosesFlags(const Stage &stage) { return stage.after == AfterStage::ChooseFlags; }

  /// Sets the summary of a planned module. Returns false after an error.
  bool summarize() {
    FailureOr<ProgramSummary> planned = summarizeProgram(module);
    if (succeeded(planned))
      summary = std::move(*planned);
    return succeeded(planned);
  }

  /// Writes reports and the dump of a stage that ran. Returns an exit code.
  int writeResults(const Stage &stage) {
    if (int code = files.error())
      return code;
    if (stage.after == AfterStage::ReportPlan) {
      if (!summarize())
        return SHALE_EXIT_INTERNAL;
      if (int code = writeReports(module, *summary, options))
        return code;
    }
    if (stage.after == AfterStage::ReportNumerics)
      if (int code = writeNumerics(module, options))
        return code;
    return files.save(module, stage.name, options.saveTemps.empty() ? "" : describeStage(stage),
                      chosen);
  }

  /// Goes on with the module after a stage, which ran or whose dump was read. Returns the exit code
  /// if the compilation ends here.
  std::optional<int> continueAfter(const Stage &stage) {
    if (choosesFlags(stage))
      if (std::optional<int> code = chooseFlags())
        return code;
    if (emits(options, stage))
      return writeText(module, options.output);
    return std::nullopt;
  }

  /// Checks and describes the model that is trained, and chooses flags by plans. Returns the exit
  /// code if the compilation ends here.
  std::optional<int> chooseFlags() {
    if (int code = checkLowering(module, options))
      return code;
    if (options.describe) {
      PrintableStream os(llvm::outs());
      describeModel(module, os);
      printCommands(module, options, model.assumed);
      return SHALE_EXIT_OK;
    }
    // Before making plans that cannot be made.
    if (failed(checkRecompute(module, options.recompute)))
      return SHALE_EXIT_USAGE;
    bool stop = false;
    if (int code = planFirst(module, options, stop))
      return code;
    if (stop)
      return reportNumericsOfPlan(module, options);
    if (options.emit == Emit::Program && options.advice)
      planner.emplace(module.clone());
    chosen = true;
    return std::nullopt;
  }

  CompileOptions &options; // flags that were not typed may be chosen by a memory limit
  ArrayRef<Stage> stages;  // refer to `options`
  size_t done;
  Imported &model;
  ModuleOp module;
  StageFiles files;
  bool chosen; // whether flags that were not typed have the values that the planner chose
  std::optional<ModelPlanner> planner; // for advice, if a program is made
  std::optional<ProgramSummary> summary;
};
} // namespace

//===----------------------------------------------------------------------===//
// A compilation
//===----------------------------------------------------------------------===//

/// Returns the exit code of what failed, or 0.
static int compileModel(DiagnosedContext &diagnosed, CompileOptions &options) {
  MLIRContext &context = diagnosed.context;
  if (options.remarks)
    if (llvm::Error wrong = showRemarks(context, options.remarksFilter))
      return usageError("--remarks-filter: " + llvm::toString(std::move(wrong)));
  if (int code = loadPlugins(context, options))
    return code;
  Imported model;
  if (!options.compileFrom.empty()) {
    if (int code = readDump(context, options, model.module))
      return code;
    if (int code = loadPlugins(context, options)) // those that the dump records
      return code;
  }
  if (!options.inserted.empty()) {
    registerAllPasses();
    if (std::string wrong = checkInsertedPasses(options); !wrong.empty())
      return usageError("--insert-pass: " + wrong);
  }
  std::string wrong;
  const Target *target = findTarget(options.target, wrong);
  if (!target)
    return usageError("--target: " + wrong);
  if (int code = chooseMachine(options, *target, diagnosed.machine))
    return code;
  noteStrategy(options);
  onnx::ImportOptions import;
  if (int code = checkAll(options, *target, import))
    return code;
  std::vector<Stage> stages = stagesFor(options);
  if (!options.compileFrom.empty()) // what a stage refuses there is in the dump, not in the flags
    for (Stage &stage : stages)
      stage.exitCode = SHALE_EXIT_DATA;
  size_t done = 0; // stages that made the dump
  if (int code = model.module ? placeDump(*model.module, options, *target, stages, done)
                              : importModel(context, options, import, model))
    return code;
  if (int code = checkOutputs(options, *model.module))
    return code;
  followFileType(options, *model.module, *target);
  if (int code = followFileOptimizer(options, *model.module))
    return code;
  StageRun run(options, stages, done, model);
  if (std::optional<int> code = run.run())
    return *code;
  Built built;
  if (int code = buildProgram(*model.module, *target, options, built))
    return code;
  PrintableStream os(llvm::outs());
  run.printPlan(os);
  llvm::outs() << "wrote " << options.output << "\n";
  if (built.libraries > 0)
    llvm::outs() << "wrote " << bundleFolder(options.output) << ", " << built.libraries
                 << " libraries of " << built.libraryBytes
                 << " bytes: keep it beside the program\n";
  return SHALE_EXIT_OK;
}

int shale::compile(const CompileOptions &flags) {
  CompileOptions options = flags; // the planner chooses those that were not typed
  installCrashHandler("shalec");
  handleInterrupts();
  CrashStage starting("reading the flags", options.model);
  DiagnosedContext diagnosed(options);
  int code = compileModel(diagnosed, options);
  if (code && diagnosed.cause)
    code = *diagnosed.cause;
  // A dump is input, and so are inserted passes: what a stage refuses there is no bug of Shale.
  if (code == SHALE_EXIT_INTERNAL && (!options.compileFrom.empty() || !options.inserted.empty()))
    code = SHALE_EXIT_DATA;
  llvm::outs().flush();
  if (std::error_code error = llvm::outs().error()) {
    llvm::outs().clear_error(); // LLVM would abort
    llvm::errs() << "shalec: error: cannot write standard output: " << error.message() << "\n";
    return code ? code : SHALE_EXIT_IO;
  }
  return code;
}
