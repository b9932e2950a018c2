//===- Compile.cpp - From an ONNX file to a training program --------------===//
#include "tools/driver/Compile.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Describe.h"
#include "lib/Analysis/Numerics.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Link.h"
#include "lib/Target/Target.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Stages.h"
#include "passes/memory/Passes.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "tools/driver/CommandLine.h"
#include "tools/driver/Dumps.h"
#include "tools/driver/FollowFile.h"
#include "tools/driver/Interrupt.h"
#include "tools/driver/KernelReports.h"
#include "tools/driver/Messages.h"
#include "tools/driver/Outputs.h"
#include "tools/driver/PlanFirst.h"
#include "tools/driver/Planner.h"
#include "tools/driver/SavePasses.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

using namespace mlir;
using namespace shale;

namespace {

/// Checks what can be checked before the model is read. Returns an exit code.
int readImportOptions(const CompileOptions &options, onnx::ImportOptions &import) {
  int64_t ranks = options.mesh.dataRanks();
  llvm::StringSet<> given;
  for (const DimSize &dim : options.dims) {
    if (!given.insert(dim.name).second)
      return usageError("--dim " + dim.name + " is given twice");
    if (!dim.size)
      continue; // found by planning
    int64_t &size = import.dims[dim.name] = *dim.size;
    if (dim.perRank && llvm::MulOverflow(*dim.size, ranks, size))
      return usageError("--dim " + dim.name + ": " + llvm::Twine(*dim.size) + " on each of " +
                        llvm::Twine(ranks) + " ranks overflows 64 bits");
  }
  for (const auto &[name, value] : options.binds)
    if (std::string wrong = onnx::parseImportFlag("bind", name + "=" + value, import);
        !wrong.empty())
      return usageError(wrong);
  for (const std::string &value : options.batchDims)
    if (std::string wrong = onnx::parseImportFlag("batch-dim", value, import); !wrong.empty())
      return usageError(wrong);
  for (const std::string &value : options.gradients)
    if (std::string wrong = onnx::parseImportFlag("gradient", value, import); !wrong.empty())
      return usageError(wrong);
  if (!options.dropout.empty())
    if (std::string wrong = onnx::parseImportFlag("dropout", options.dropout, import);
        !wrong.empty())
      return usageError(wrong);
  import.loss = options.loss;
  import.lossOutput = options.lossOutput;
  import.assumeAutocast = options.assumeAutocast;
  import.assumeDerivative = options.assumeDerivative;
  import.assumeMerged = options.assumeMerged;
  import.parameters.keepPrefix = options.keepPrefix;
  import.parameters.freeze = options.freeze;
  import.parameters.assumeTied = options.assumeTied;
  for (const std::string &name : options.assumeForm)
    import.parameters.assumedForms.insert(name);
  for (const std::string &name : options.constants)
    import.parameters.constants.insert(name);
  import.dataRanks = ranks;
  return SHALE_EXIT_OK;
}

/// Writes the module's text to `path` ("-" is standard output).
int writeText(ModuleOp module, StringRef path) {
  return writeOutput(path, [&](raw_ostream &os) {
    printModule(module, path == "-" ? 64 : std::numeric_limits<int64_t>::max(), os);
  });
}

/// Returns the path of a file that emitted programs are linked with: in ../lib beside this
/// executable's folder.
std::string inLibraries(StringRef name) {
  static int anchor;
  llvm::SmallString<128> path(llvm::sys::fs::getMainExecutable(nullptr, &anchor));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "..", "lib", name);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

/// A compilation in progress.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options) : options(options) {
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

  /// Returns the exit code: that of the failed stage, or that of an error with one of its own.
  int run() {
    int code = compileModel();
    return code && cause ? *cause : code;
  }

private:
  int compileModel() {
    if (options.remarks)
      if (llvm::Error wrong = showRemarks(context, options.remarksFilter))
        return usageError("--remarks-filter: " + llvm::toString(std::move(wrong)));
    if (int code = loadPlugins())
      return code;
    if (!options.compileFrom.empty()) {
      if (int code = readDump(context, options, module))
        return code;
      if (int code = loadPlugins()) // those that the dump records
        return code;
    }
    if (!options.inserted.empty()) {
      registerAllPasses();
      if (std::string wrong = checkInsertedPasses(options); !wrong.empty())
        return usageError("--insert-pass: " + wrong);
    }
    std::string wrong;
    target = findTarget(options.target, wrong);
    if (!target)
      return usageError("--target: " + wrong);
    if (int code = chooseMachine())
      return code;
    if (options.gathersUnits() && !options.typed.count("shard") && !options.describe)
      llvm::errs()
          << "shalec: note: using --shard full, because the mesh has a shard axis; --shard none selects DDP\n";
    if (options.typed.count("shard") && options.mesh.ranks() == 1 && !options.describe &&
        options.shard != Sharding::None)
      llvm::errs()
          << "shalec: note: --shard splits nothing on one rank; --mesh fsdp=N compiles for "
             "N ranks\n";
    if (int code = readImportOptions(options, import))
      return code;
    if (int code = checkPlanOptions(options))
      return code;
    if (int code = checkFlags(options, *target))
      return code;
    if (int code = checkOutputs(options, {}))
      return code;
    stages = stagesFor(options);
    if (!options.compileFrom.empty()) // what a stage refuses there is in the dump, not in the flags
      for (Stage &stage : stages)
        stage.exitCode = SHALE_EXIT_DATA;
    size_t done = 0; // stages that made the dump
    if (int code = module ? goOn(done) : importModel())
      return code;
    if (int code = checkOutputs(options, *module))
      return code;
    followFileType(options, *module, *target);
    if (int code = followFileOptimizer(options, *module))
      return code;
    if (options.compileFrom.empty())
      if (int code = saveStage("import"))
        return code;
    if (done > 0)
      if (std::optional<int> code = continueAfter(stages[done - 1]))
        return *code;
    StageHooks hooks;
    hooks.before = [this](const Stage &stage, PassManager &manager) { instrument(stage, manager); };
    hooks.after = [this](const Stage &stage) -> std::optional<int> {
      if (int code = writeResults(stage))
        return code;
      return continueAfter(stage);
    };
    if (std::optional<int> code = runStages(*module, ArrayRef(stages).drop_front(done), hooks))
      return *code;
    return finish();
  }

  /// Sets the machine whose rates predict times, unless --machine names a known one.
  int chooseMachine() {
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
      options.machine = &target->getRates();
    return SHALE_EXIT_OK;
  }

  int loadPlugins() {
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

  int importModel() {
    if (int code = chooseBatch())
      return code;
    import.missingData = options.planOnly ? onnx::ImportOptions::MissingData::Remark
                                          : onnx::ImportOptions::MissingData::Warning;
    int code = SHALE_EXIT_DATA;
    CrashStage importing("importing");
    module = options.describe ? importToDescribe(code)
                              : onnx::importOnnx(options.model, import, &context, &code);
    return module ? SHALE_EXIT_OK : code;
  }

  /// Prepares to go on from a dump. Sets `done` to the number of stages up to the dump's.
  int goOn(size_t &done) {
    if (options.compileFrom != "import") {
      done = llvm::find_if(stages, [&](const Stage &s) { return options.compileFrom == s.name; }) -
             stages.begin() + 1;
      if (done > stages.size())
        return usageError("--compile-from: '" + options.compileFrom + "' is not one of " +
                          namesOf(stages));
    }
    auto made = (*module)->getAttrOfType<StringAttr>(nn::kTargetAttr);
    if (made && made.getValue() != target->getName())
      return usageError("--target: " + options.model + " was made for " + made.str() +
                        ", and this command compiles for " + target->getName().str() +
                        "; give --target " + made.str());
    size_t before = std::max<size_t>(done, 1) - 1; // stages before the dump's
    if (options.emit < Emit::Object &&
        llvm::none_of(
            ArrayRef(stages).drop_front(before), [&](const Stage &s) { return emits(s); }))
      return usageError("--emit: no stage from " + options.compileFrom + " on makes this IR");
    if (options.describe)
      return usageError("--describe needs the model, not a dump: leave --compile-from out");
    stageNumber = done + 2;
    lastDump = options.model;
    chosen = llvm::any_of(ArrayRef(stages).take_front(before),
                          [](const Stage &s) { return s.after == AfterStage::ChooseFlags; });
    if (done == 0 || stages[before].after != AfterStage::ReportPlan)
      return SHALE_EXIT_OK;
    return summarize() ? SHALE_EXIT_OK : SHALE_EXIT_DATA;
  }

  /// Whether the compilation ends after a stage with its IR.
  bool emits(const Stage &stage) const { return stage.last && stage.level == options.emit; }

  /// Sets the summary of a planned module. Returns false after an error.
  bool summarize() {
    FailureOr<ProgramSummary> planned = summarizeProgram(*module);
    if (succeeded(planned))
      summary = std::move(*planned);
    return succeeded(planned);
  }

  /// Prints a diagnostic, and one that is not an error only once: plans are made before and beside
  /// the program and repeat it.
  void print(Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream os(text);
    printDiagnostic(diagnostic, options.model, os);
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error || said.insert(text).second)
      llvm::errs() << text;
  }

  /// Refuses a model that this target cannot compute, before plans are made: parameters of another
  /// type, and all ops of the forward graph without a kernel, in one error.
  int checkLowering() {
    for (auto state : module->getOps<nn::StateOp>())
      if (state.getTensorType().getElementType().isF64()) {
        emitError(state.getLoc()) << "parameter '" << state.getSymName()
                                  << "' is f64, and programs compute in f32: export model.float()";
        return SHALE_EXIT_DATA;
      }
    ScopedDiagnosticHandler errorsOnly(&context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    OwningOpRef<ModuleOp> trial = module->clone();
    return runStages(*trial, options, StageId::Memory, StageId::Fusion);
  }

  /// Imports a model for --describe without the flags that it needs: tries sizes until one is
  /// accepted.
  OwningOpRef<ModuleOp> importToDescribe(int &code) {
    std::string first;
    onnx::ImportOptions sized = import;
    for (sized.assumedSize = 128; sized.assumedSize > 1; sized.assumedSize /= 2) {
      std::string text;
      llvm::raw_string_ostream os(text);
      ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
        printDiagnostic(diagnostic, options.model, os);
        return success();
      });
      assumed.clear();
      sized.assumed = &assumed;
      OwningOpRef<ModuleOp> module = onnx::importOnnx(options.model, sized, &context, &code);
      if (module) {
        llvm::errs() << text;
        return module;
      }
      first = first.empty() ? text : first;
      if (assumed.empty())
        break;
    }
    llvm::errs() << first;
    return {};
  }

  /// Prints the commands that compile and train the model, for copying.
  void printCommands() {
    llvm::outs() << "to compile and train it"
                 << (assumed.empty() ? "" : ", with sizes of your choice") << ":\n  shalec";
    for (StringRef word : options.words) {
      bool plain =
          word.find_first_not_of(
              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
          StringRef::npos;
      std::string quoted = word.str();
      for (size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4)
        quoted.replace(at, 1, "'\\''");
      llvm::outs() << ' ' << (plain && !word.empty() ? quoted : "'" + quoted + "'");
    }
    for (StringRef flag : assumed)
      llvm::outs() << ' ' << flag;
    llvm::outs() << " -o " << options.output << "\n";
    PrintableStream os(llvm::outs());
    describeTraining(*module, options.output, os);
  }

  /// Finds the size of a dimension that is "max" under the memory limit.
  int chooseBatch() {
    std::string name;
    for (const DimSize &dim : options.dims)
      if (!dim.size) {
        if (!name.empty())
          return usageError("--dim: only one dimension can be max");
        name = dim.name;
      }
    if (name.empty())
      return SHALE_EXIT_OK;
    MemoryLimit limit = options.limit();
    if (!limit.any())
      return usageError("--dim " + name + "=max needs --memory-limit");
    int64_t ranks = options.mesh.dataRanks();
    auto importAt = [&](int64_t size) -> OwningOpRef<ModuleOp> {
      ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
      onnx::ImportOptions sized = import;
      sized.dims[name] = size;
      sized.missingData = onnx::ImportOptions::MissingData::Remark;
      OwningOpRef<ModuleOp> module = onnx::importOnnx(options.model, sized, &context);
      if (module && runStages(*module, ArrayRef(stages).take_front(), {}))
        return {};
      return module;
    };
    if (OwningOpRef<ModuleOp> smallest = importAt(ranks)) {
      adoptFileType(options, *smallest);
      if (int code = followFileOptimizer(options, *smallest))
        return code;
    }
    int64_t size = largestBatch(importAt, options, limit, ranks);
    if (size == 0) { // planning the smallest size reports the error
      size = ranks;
    } else {
      bool more = bool(importAt(size + ranks));
      llvm::outs() << "batch         " << name << " = " << size << " is the largest that "
                   << (more ? "fits " : "the model takes; it fits ")
                   << options.typedText("memory-limit") << "\n";
    }
    import.dims[name] = size;
    return SHALE_EXIT_OK;
  }

  /// Adds what flags ask of the passes of a stage: reports, dumps, crash reproducers.
  void instrument(const Stage &stage, PassManager &manager) {
    writeKernelReports(manager, options, reported);
    if (options.savePasses)
      savePasses(manager, stagePath(stage.name), lastDump, options, saved);
    if (options.printPasses)
      manager.enableIRPrinting(/*shouldPrintBeforePass=*/{},
                               [](Pass *, Operation *) { return true; });
    if (!options.crashReproducer.empty())
      manager.enableCrashReproducerGeneration(options.crashReproducer);
  }

  /// Writes reports and the dump of a stage that ran. Returns an exit code.
  int writeResults(const Stage &stage) {
    if (saved || reported)
      return saved ? saved : reported;
    if (stage.after == AfterStage::ReportPlan) {
      if (!summarize())
        return SHALE_EXIT_INTERNAL;
      if (int code = writeReports(*module, *summary, options))
        return code;
    }
    if (stage.after == AfterStage::ReportNumerics)
      if (int code = writeNumerics(*module))
        return code;
    return saveStage(stage.name, options.saveTemps.empty() ? "" : describeStage(stage));
  }

  /// Goes on with the module after a stage, which ran or whose dump was read. Returns the exit code
  /// if the compilation ends here.
  std::optional<int> continueAfter(const Stage &stage) {
    if (stage.after == AfterStage::ChooseFlags)
      if (std::optional<int> code = chooseFlags())
        return code;
    if (emits(stage))
      return writeText(*module, options.output);
    return std::nullopt;
  }

  /// Checks and describes the model that is trained, and chooses flags by plans. Returns the exit
  /// code if the compilation ends here.
  std::optional<int> chooseFlags() {
    if (int code = checkLowering())
      return code;
    if (options.describe) {
      PrintableStream os(llvm::outs());
      describeModel(*module, os);
      printCommands();
      return SHALE_EXIT_OK;
    }
    // Before making plans that cannot be made.
    if (failed(checkRecompute(*module, options.recompute)))
      return SHALE_EXIT_USAGE;
    bool stop = false;
    if (int code = planFirst(*module, options, stop))
      return code;
    if (stop)
      return reportNumericsOfPlan();
    if (options.emit == Emit::Program && options.advice)
      planner.emplace(module->clone());
    chosen = true;
    return std::nullopt;
  }

  int writeNumerics(ModuleOp partitioned) {
    for (const Report &report : options.reports)
      if (report.kind == ReportKind::Numerics)
        if (int code = writeOutput(report.file(), [&](raw_ostream &os) {
              reportNumerics(partitioned, reportFormOf(report.file()), os);
            }))
          return code;
    return SHALE_EXIT_OK;
  }

  /// Writes the numerics report for a plan without a program, whose stages ran on clones.
  int reportNumericsOfPlan() {
    if (llvm::none_of(options.reports,
                      [](const Report &report) { return report.kind == ReportKind::Numerics; }))
      return SHALE_EXIT_OK;
    if (int code = runStages(*module, options, StageId::Recover, StageId::Partition))
      return code;
    return writeNumerics(*module);
  }

  int saveStage(StringRef name, std::string passes = "") {
    if (options.saveTemps.empty())
      return SHALE_EXIT_OK;
    if (std::error_code error = llvm::sys::fs::create_directories(options.saveTemps)) {
      llvm::errs() << "shalec: error: cannot create '" << options.saveTemps
                   << "': " << error.message() << "\n";
      return SHALE_EXIT_IO;
    }
    std::string path = stagePath(name);
    ++stageNumber;
    DumpOrigin origin{std::move(passes), std::exchange(lastDump, path + ".mlirbc")};
    return writeDump(*module, path, name, origin, options, chosen);
  }

  /// Returns the path prefix of the files that the current stage writes.
  std::string stagePath(StringRef name) const {
    llvm::SmallString<128> path(options.saveTemps);
    llvm::sys::path::append(path, llvm::formatv("{0,0+2}-{1}", stageNumber, name).str());
    return path.str().str();
  }

  /// Writes the object file, then the program; the output appears complete or not at all.
  int finish() {
    llvm::SmallString<128> object;
    if (options.emit == Emit::Object) {
      object = options.output;
    } else if (std::error_code error = llvm::sys::fs::createTemporaryFile("shale", "o", object)) {
      llvm::errs() << "shalec: error: cannot create a temporary file: " << error.message() << "\n";
      return SHALE_EXIT_IO;
    }
    CrashStage writing("generating code");
    int64_t libraries = 0, libraryBytes = 0;
    llvm::FileRemover remover(object, /*deleteIt=*/options.emit != Emit::Object);
    if (options.emit != Emit::Object)
      llvm::sys::RemoveFileOnSignal(object);
    llvm::SmallVector<char, 0> code;
    if (failed(target->emitObject(*module, code)))
      return SHALE_EXIT_INTERNAL;
    if (int failed =
            writeOutput(object, [&](raw_ostream &os) { os.write(code.data(), code.size()); }))
      return failed;
    if (options.emit == Emit::Program) {
      LinkOptions link;
      for (const std::string &name : target->getRuntime()) {
        link.runtime.push_back(inLibraries(name));
        if (!llvm::sys::fs::exists(link.runtime.back())) {
          llvm::errs() << "shalec: error: this build has no runtime for " << target->getName()
                       << ": " << link.runtime.back()
                       << " is missing; build Shale where the libraries' headers are installed\n";
          return SHALE_EXIT_UNAVAILABLE;
        }
      }
      link.libraries = target->getLibraries();
      link.bundled = options.bundle;
      link.package = inLibraries("link");
      ToolError wrong;
      if (!linkProgram({object.str().str()}, options.output, link, wrong)) {
        llvm::errs() << "shalec: error: cannot link '" << options.output << "': " << wrong.message
                     << "\n";
        return wrong.exitCode;
      }
      std::string error;
      if (options.bundle && !bundleLibraries(options.output, libraries, libraryBytes, error)) {
        llvm::errs() << "shalec: error: cannot bundle the libraries of '" << options.output
                     << "': " << error << "\n";
        return SHALE_EXIT_IO;
      }
    }
    PrintableStream os(llvm::outs());
    if (summary) // none for a dump after codegen
      printSummary(*summary, os);
    if (planner)
      if (FailureOr<Plan> plan = planner->plan(options); succeeded(plan))
        printVerdict(*planner, *plan, os);
    llvm::outs() << "wrote " << options.output << "\n";
    if (libraries > 0)
      llvm::outs() << "wrote " << bundleFolder(options.output) << ", " << libraries
                   << " libraries of " << libraryBytes << " bytes: keep it beside the program\n";
    return SHALE_EXIT_OK;
  }

  CompileOptions options;    // flags that were not typed may be chosen by a memory limit
  std::vector<Stage> stages; // refer to `options`
  onnx::ImportOptions import;
  std::vector<std::string> assumed; // flags that --describe lacks
  bool chosen = false; // whether flags that were not typed have the values that the planner chose
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  const Target *target = nullptr; // set by run()
  std::optional<Rates> machine;   // that of a file
  std::optional<Planner> planner; // for advice, if a program is made
  std::optional<ProgramSummary> summary;
  std::optional<int> cause; // of the first error with an exit code of its own
  int saved = SHALE_EXIT_OK, reported = SHALE_EXIT_OK; // set by instrumentation of passes
  int stageNumber = 1;
  std::string lastDump; // the file of the module before the current stage
  llvm::StringSet<> said;
};

} // namespace

int shale::compile(const CompileOptions &options) {
  installCrashHandler("shalec");
  handleInterrupts();
  CrashStage starting("reading the flags", options.model);
  int code = Compilation(options).run();
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
