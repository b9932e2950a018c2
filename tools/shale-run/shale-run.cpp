//===- shale-run.cpp - Runs IR in the interpreter -------------------------===//
#include "dialects/nn/Optimizers.h"
#include "lib/Interpreter/Compare.h"
#include "lib/Interpreter/Mutate.h"
#include "lib/Interpreter/Training.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/InputFile.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "tools/shale-run/GradientCheck.h"
#include "tools/shale-run/JsonPrinter.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>

using namespace mlir;
using namespace shale;
using namespace shale::interp;
namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("What runs, and on what");
cl::OptionCategory training("Training (--steps)");

cl::opt<std::string> input(cl::Positional, cl::desc("FILE.mlir"), cl::init("-"));
cl::opt<std::string> function("function", cl::desc("the function to run (default: all)"),
                              cl::value_desc("name"), cl::cat(category));
cl::opt<int64_t> ranks("ranks", cl::desc("virtual ranks (default: the ranks of the mesh, or 1)"),
                       cl::init(0), cl::cat(category));
cl::opt<uint64_t> seed("seed", cl::desc("seed of random inputs"), cl::init(0), cl::cat(category));
cl::opt<std::string> as("as", cl::desc("declared: round by type; f64: compute all floats in f64"),
                        cl::init("declared"), cl::value_desc("declared|f64"), cl::cat(category));
cl::opt<std::string> inputs("inputs", cl::desc("values to use instead of random ones"),
                            cl::value_desc("file.safetensors"), cl::cat(category));
cl::opt<std::string> out("out", cl::desc("write the results"), cl::value_desc("file.safetensors"),
                         cl::cat(category));
cl::opt<int64_t> print("print", cl::desc("elements printed of a result"), cl::init(8),
                       cl::cat(category));
cl::list<std::string> compare(
    "compare",
    cl::desc(
        "run this program too, on the same values, and compare; given more than once: every two"),
    cl::value_desc("other.mlir"), cl::cat(category));
cl::opt<double> tolerance("tolerance",
                          cl::desc("largest relative difference (default 1e-12; gradients 1e-6)"),
                          cl::init(0), cl::cat(category));
cl::opt<double>
    smallest("floor", cl::desc("relative differences: lower bound of a tensor's largest element"),
             cl::init(0), cl::cat(category));
cl::opt<bool> exact("exact", cl::desc("compare bits"), cl::cat(category));
cl::opt<bool>
    mutate("mutate",
           cl::desc("delete each collective and wait in turn; fail if the results stay the same"),
           cl::cat(category));
cl::opt<bool>
    checkGradient("check-gradient",
                  cl::desc("differentiate every function and compare with central differences; "
                           "with --out, then also run it"),
                  cl::cat(category));
cl::opt<double> progress("progress",
                         cl::desc("--check-gradient: seconds between lines of progress"),
                         cl::init(10), cl::value_desc("seconds"), cl::cat(category));
cl::opt<bool> printsJson("json",
                         cl::desc("print the program as JSON, for scripts, instead of running it"),
                         cl::cat(category));
cl::list<std::string> plugins("load-pass-plugin",
                              cl::desc("a plug-in with dialects and evaluators of its own"),
                              cl::value_desc("file.so"), cl::cat(category));
cl::opt<std::string> modelDir("model-dir", cl::desc("where relative paths of weights begin"),
                              cl::value_desc("folder"), cl::cat(category));

cl::opt<int64_t> steps("steps", cl::desc("run @step this many times from the initial state"),
                       cl::init(0), cl::cat(training));
cl::opt<std::string> batches("batches", cl::desc("inputs with a leading dimension of steps"),
                             cl::value_desc("file.safetensors"), cl::cat(training));
cl::opt<double> lr("lr", cl::desc("learning rate"), cl::init(1e-3), cl::cat(training));
/// Flags of all optimizers, by the name of the hyper-parameter.
std::map<std::string, std::unique_ptr<cl::opt<double>>> hyperFlags;

void addHyperFlags() {
  static std::list<std::string> names; // cl::opt keeps references
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter *hyper : nn::getHyperParameters(*optimizer))
      if (auto &flag = hyperFlags[hyper->name.str()];
          !flag && hyper->source == nn::HyperSource::Flag)
        flag = std::make_unique<cl::opt<double>>(StringRef(names.emplace_back(hyper->flag())),
                                                 cl::desc(hyper->text), cl::cat(training));
}

/// Returns the value, or prints the error and exits.
template <typename T> T orExit(llvm::Expected<T> value, int code) {
  if (value)
    return std::move(*value);
  llvm::errs() << "shale-run: error: " << llvm::toString(value.takeError()) << "\n";
  exit(code);
}

NamedTensors readIfGiven(const std::string &path) {
  return path.empty() ? NamedTensors() : orExit(readSafeTensors(path), SHALE_EXIT_DATA);
}

/// Parses a module, with the names of its values and blocks unless it is bytecode.
OwningOpRef<ModuleOp> parseWithNames(const llvm::SourceMgr &sources, MLIRContext &context,
                                     AsmParserState &names) {
  const llvm::MemoryBuffer &buffer = *sources.getMemoryBuffer(sources.getMainFileID());
  if (isBytecode(buffer))
    return parseSourceFile<ModuleOp>(sources, &context);
  Block block;
  if (failed(parseAsmSourceFile(sources, &block, ParserConfig(&context), &names)))
    return {};
  auto location = FileLineColLoc::get(&context, buffer.getBufferIdentifier(), 0, 0);
  return mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(&block, &context,
                                                                          location);
}

/// Parses the file, or prints the error and exits. With `names`, these are of its text.
OwningOpRef<ModuleOp> parse(const std::string &path, llvm::SourceMgr &sources, MLIRContext &context,
                            AsmParserState *names = nullptr) {
  CrashStage stage("parsing", path);
  ToolError error;
  auto buffer = openIr(path, error);
  if (!buffer) {
    llvm::errs() << "shale-run: error: " << error.message << "\n";
    exit(error.exitCode);
  }
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = names ? parseWithNames(sources, context, *names)
                                       : parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    exit(SHALE_EXIT_DATA);
  return module;
}

void printTensor(StringRef name, const Tensor &tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    sum += tensor.number(i);
  llvm::outs() << "  " << name << ": " << tensor.shapeString() << llvm::format(" sum %.9g [", sum);
  int64_t count = std::min<int64_t>(print, tensor.size());
  for (int64_t i = 0; i < count; ++i) {
    llvm::outs() << (i ? ", " : "");
    if (tensor.isFloat())
      llvm::outs() << llvm::format("%.9g", tensor.floats()[i]);
    else
      llvm::outs() << tensor.ints()[i];
  }
  llvm::outs() << (count < tensor.size() ? ", ...]\n" : "]\n");
}

LogicalResult runFunctions(ModuleOp module, const Options &settings) {
  const ProgramAdapter &adapter = getAdapter(module);
  std::vector<std::string> names{function};
  if (function.empty())
    names = adapter.functions(module);
  LogicalValues values(seed);
  values.tensors = readIfGiven(inputs);
  NamedTensors all;
  for (const std::string &name : names) {
    Options options = settings;
    options.ranks = adapter.rankCount(module, ranks);
    Interpreter interpreter(options);
    LogicalValues results;
    if (failed(adapter.run(module, name, interpreter, values, results)))
      return failure();
    llvm::outs() << "@" << name << "\n";
    for (auto &[key, value] : results.tensors) {
      printTensor(key, value);
      all[key] = value;
    }
  }
  if (!out.empty())
    if (llvm::Error error = writeSafeTensors(out, all))
      return module.emitError(llvm::toString(std::move(error)));
  return success();
}

LogicalResult runGradientChecks(ModuleOp module) {
  GradientCheckOptions options;
  options.seed = seed;
  options.progress = progress;
  if (tolerance > 0)
    options.tolerance = tolerance;
  if (!function.empty() && !module.lookupSymbol<func::FuncOp>(function))
    return module.emitError("has no function '") << function << "'";
  LogicalResult result = success();
  for (auto f : module.getOps<func::FuncOp>())
    if (function.empty() || f.getSymName() == function)
      if (failed(checkGradients(f, options, llvm::outs())))
        result = failure();
  return result;
}

LogicalResult runTraining(ModuleOp module, const Options &settings) {
  TrainingOptions options;
  options.interpreter = settings;
  options.ranks = ranks;
  options.steps = steps;
  options.lr = lr;
  for (const auto &[name, flag] : hyperFlags)
    if (flag && flag->getNumOccurrences() > 0)
      options.hypers[name] = *flag;
  options.seed = seed;
  options.batches = readIfGiven(batches);
  options.folder = modelDir.empty() ? llvm::sys::path::parent_path(input).str() : modelDir;
  NamedTensors state;
  if (failed(train(module, options, llvm::outs(), state)))
    return failure();
  if (!out.empty())
    if (llvm::Error error = writeSafeTensors(out, state))
      return module.emitError(llvm::toString(std::move(error)));
  return success();
}

CompareOptions compareOptions(const Options &settings) {
  CompareOptions options;
  options.interpreter = settings;
  options.ranks = ranks;
  options.seed = seed;
  options.exact = exact;
  options.floor = smallest;
  if (tolerance > 0)
    options.tolerance = tolerance;
  options.inputs = readIfGiven(inputs);
  return options;
}

LogicalResult compareWith(ModuleOp module, MLIRContext &context, const CompareOptions &options) {
  std::vector<std::string> names{llvm::sys::path::filename(input).str()};
  SmallVector<ModuleOp> modules{module};
  std::deque<llvm::SourceMgr> sources;
  std::vector<OwningOpRef<ModuleOp>> others;
  for (const std::string &path : compare) {
    others.push_back(parse(path, sources.emplace_back(), context));
    modules.push_back(*others.back());
    names.push_back(llvm::sys::path::filename(path).str());
  }
  return compareModules(modules, names, options, llvm::outs());
}

/// Returns the exit code of an error in the flags, which it prints, or SHALE_EXIT_OK.
int checkFlags() {
  if ((as != "declared" && as != "f64") || ranks < 0 || ranks > 1024 || steps < 0) {
    llvm::errs()
        << "shale-run: error: --as is declared or f64, --ranks 1 to 1024, --steps positive\n";
    return SHALE_EXIT_USAGE;
  }
  const std::reference_wrapper<const cl::Option> ofRuns[] = {function, inputs,        out,  compare,
                                                             mutate,   checkGradient, steps};
  for (const cl::Option &other : ofRuns)
    if (printsJson && other.getNumOccurrences() > 0) {
      llvm::errs() << "shale-run: error: --json runs nothing: leave out --" << other.ArgStr << "\n";
      return SHALE_EXIT_USAGE;
    }
  if (llvm::sys::fs::is_directory(out)) { // before the work
    llvm::errs() << "shale-run: error: " << out << ": it is a folder\n";
    return SHALE_EXIT_IO;
  }
  return SHALE_EXIT_OK;
}

} // namespace

static int start(int argc, char **argv);

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  installCrashHandler("shale-run");
  std::set_new_handler(nullptr); // LLVM's would abort
  try {
    return start(argc, argv);
  } catch (const std::exception &) { // bad_alloc, length_error
    llvm::errs() << "shale-run: error: the program does not fit into memory\n";
    return SHALE_EXIT_DATA;
  }
}

static int start(int argc, char **argv) {
  addHyperFlags();
  cl::HideUnrelatedOptions({&category, &training});
  cl::ParseCommandLineOptions(
      argc, argv,
      "Runs nn, dist, mem and rt IR on virtual ranks in one process.\n\n"
      "  shale-run a.mlir                                  runs a's functions on random inputs\n"
      "  shale-run --as=f64 a.mlir --compare=b.mlir        exit 0 if both compute the same\n"
      "  shale-run --check-gradient a.mlir                 gradients against central differences\n"
      "  shale-run --steps=20 --batches=b.safetensors a.mlir   trains, one JSON line per step\n"
      "  shale-run --json a.mlir                           prints a as JSON, for scripts\n");
  if (int wrong = checkFlags())
    return wrong;
  DialectRegistry registry;
  registerAllDialects(registry);
  for (const std::string &plugin : plugins)
    if (llvm::Error wrong = loadPlugin(plugin, registry)) {
      llvm::errs() << "shale-run: error: " << llvm::toString(std::move(wrong)) << "\n";
      return SHALE_EXIT_UNAVAILABLE;
    }
  MLIRContext context(registry);
  context.loadAllAvailableDialects(); // running a program creates ops of dialects that its text may
                                      // not use
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  AsmParserState names;
  OwningOpRef<ModuleOp> module = parse(input, sources, context, printsJson ? &names : nullptr);
  if (printsJson) {
    CrashStage printing("printing", input);
    printJson(*module, names, llvm::outs());
    return SHALE_EXIT_OK;
  }
  CrashStage running("running", input);
  Options settings;
  settings.asF64 = as == "f64";
  if (!compare.empty()) {
    return failed(compareWith(*module, context, compareOptions(settings)));
  }
  if (mutate)
    return failed(mutateModule(*module, compareOptions(settings), llvm::outs()));
  if (checkGradient)
    if (bool wrong = failed(runGradientChecks(*module)); wrong || out.empty())
      return wrong;
  if (steps > 0)
    return failed(runTraining(*module, settings)) ? SHALE_EXIT_DATA : SHALE_EXIT_OK;
  return failed(runFunctions(*module, settings)) ? SHALE_EXIT_DATA : SHALE_EXIT_OK;
}
