//===- shale-reduce.cpp - Shrinks a module that shows a fault -------------===//
#include "lib/Support/CrashHandler.h"
#include "lib/Support/InputFile.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "tools/shale-reduce/ReductionSearch.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/StringSaver.h"

using namespace mlir;
using namespace shale;
namespace cl = llvm::cl;
namespace fs = llvm::sys::fs;

namespace {

cl::OptionCategory category("What is interesting");

cl::opt<std::string> input(cl::Positional, cl::desc("FILE.mlir"), cl::Required);
cl::opt<std::string> output("o",
                            cl::desc("where to write the best module so far, - for standard "
                                     "output at the end (default: FILE.reduced.mlir, in this "
                                     "folder)"),
                            cl::value_desc("OUT.mlir"), cl::cat(category));
cl::opt<std::string> script("test",
                            cl::desc("run with the path of a candidate as its only argument; "
                                     "exits with 0 if the candidate still shows the fault"),
                            cl::value_desc("SCRIPT"), cl::cat(category));
cl::opt<std::string> opt("opt",
                         cl::desc("run shale-opt with these arguments on the candidate, which is "
                                  "interesting if that crashes"),
                         cl::value_desc("'--PASS ...'"), cl::cat(category));
cl::opt<std::string> expect("expect",
                            cl::desc("with --opt: interesting if shale-opt fails or crashes, and "
                                     "a line of its messages matches"),
                            cl::value_desc("REGEX"), cl::cat(category));
cl::opt<std::string> program("shale-opt",
                             cl::desc("the shale-opt that --opt runs, of another build for "
                                      "example (default: the one beside shale-reduce)"),
                             cl::value_desc("PATH"), cl::cat(category));
cl::opt<unsigned> timeout("timeout",
                          cl::desc("stop a test after this time; the candidate is then not "
                                   "interesting (default: 60)"),
                          cl::value_desc("SECONDS"), cl::init(60), cl::cat(category));
cl::opt<bool> allowInvalid("allow-invalid",
                           cl::desc("try candidates that do not verify, too; for faults of "
                                    "verifiers"),
                           cl::cat(category));
cl::list<std::string> plugins("load-pass-plugin",
                              cl::desc("a plug-in with dialects and passes of its own"),
                              cl::value_desc("FILE.so"), cl::cat(category));
cl::opt<bool> allowUnregistered("allow-unregistered-dialect",
                                cl::desc("accept ops of unregistered dialects"), cl::cat(category));

int fail(const Twine &text, int code) {
  llvm::errs() << "shale-reduce: error: " << text << "\n";
  return code;
}

int fail(llvm::Error error, int code) { return fail(llvm::toString(std::move(error)), code); }

/// Writes a file whole or not at all.
llvm::Error writeWhole(StringRef path, StringRef text) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << text;
    auto &file = static_cast<llvm::raw_fd_ostream &>(os); // a temporary file's
    file.flush();
    std::error_code wrong = file.error();
    file.clear_error();
    return llvm::errorCodeToError(wrong);
  });
  if (error)
    return llvm::createStringError("cannot write '" + path +
                                   "': " + llvm::toString(std::move(error)));
  return llvm::Error::success();
}

/// The pipeline that a crash reproducer records, as an argument of shale-opt.
void readReproducer(ParserConfig &config, std::string &argument) {
  config.attachResourceParser("mlir_reproducer", [&](AsmParsedResourceEntry &entry) {
    if (entry.getKey() != "pipeline")
      return success();
    FailureOr<std::string> pipeline = entry.parseAsString();
    if (succeeded(pipeline))
      argument = "--pass-pipeline=" + *pipeline;
    return success(succeeded(pipeline));
  });
}

/// The test that the flags describe.
llvm::Expected<Test> makeTest(const std::string &reproduced) {
  std::optional<std::string> regex;
  if (expect.getNumOccurrences())
    regex = expect;
  if (script.getNumOccurrences())
    return Test::fromScript(script);
  std::vector<std::string> arguments;
  if (!opt.getNumOccurrences()) {
    if (reproduced.empty())
      return llvm::createStringError("needs --test=SCRIPT or --opt='--PASS ...'; without them, "
                                     "FILE must be a reproducer, which records its passes");
    arguments.push_back(reproduced);
  } else {
    llvm::BumpPtrAllocator allocator;
    llvm::StringSaver saver(allocator);
    SmallVector<const char *> words;
    cl::TokenizeGNUCommandLine(opt, saver, words);
    arguments.assign(words.begin(), words.end());
  }
  if (allowUnregistered)
    arguments.push_back("--allow-unregistered-dialect");
  for (const std::string &plugin : plugins)
    arguments.push_back("--load-pass-plugin=" + plugin);
  return Test::fromOpt(program, std::move(arguments), std::move(regex));
}

int notInteresting(const Test &test, const Outcome &outcome) {
  fail("'" + input + "' is not interesting: " + outcome.end +
           ", but a candidate is interesting if " + test.describe(),
       SHALE_EXIT_DATA);
  if (StringRef text = StringRef(outcome.output).rtrim(); !text.empty()) {
    SmallVector<StringRef> lines;
    text.split(lines, '\n');
    llvm::errs() << "shale-reduce: note: the end of its output:\n";
    for (StringRef line : ArrayRef(lines).take_back(10))
      llvm::errs() << "  " << line << "\n";
  }
  return SHALE_EXIT_DATA;
}

int interrupted(int signal) {
  return signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED;
}

int reduce(ModuleOp module, const Test &test, StringRef folder) {
  SearchOptions options;
  options.seconds = timeout;
  options.allowInvalid = allowInvalid;
  std::optional<ReductionSearch> search;
  // Locations are noise, except for a fault that depends on them.
  for (bool locations : {false, true}) {
    options.locations = locations;
    search.emplace(module, test, folder.str(), options);
    llvm::Expected<Outcome> outcome = search->testInput();
    if (!outcome)
      return fail(outcome.takeError(), SHALE_EXIT_USAGE);
    if (outcome->interrupt)
      return interrupted(outcome->interrupt);
    if (outcome->isInteresting)
      break;
    if (locations || outcome->timedOut)
      return notInteresting(test, *outcome);
  }
  unsigned before = search->getSize().allOps();
  auto keep = [&](StringRef text) {
    return output == "-" ? llvm::Error::success() : writeWhole(output, text);
  };
  llvm::Error error = keep(search->getText());
  if (!error)
    error = search->run(keep);
  if (error)
    return fail(std::move(error), SHALE_EXIT_IO);
  if (output == "-")
    llvm::outs() << search->getText();
  llvm::errs() << "shale-reduce: "
               << (search->getInterrupt() ? "interrupted; the best module so far: " : "") << before
               << " -> " << search->getSize().allOps() << " ops after " << search->getTested()
               << " candidates" << (output == "-" ? "" : ", in '" + output + "'") << "\n";
  return search->getInterrupt() ? interrupted(search->getInterrupt()) : SHALE_EXIT_OK;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  installCrashHandler("shale-reduce");
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "Shrinks a module that shows a fault to one that still shows it.\n\n"
      "  shale-reduce a.mlir --opt='--shale-partition'                     a crash\n"
      "  shale-reduce a.mlir --opt='--shale-partition' --expect='no rule'  a message\n"
      "  shale-reduce a.mlir --test=./test.sh        the script exits with 0: interesting\n"
      "  shale-reduce failed.mlir                    a crash reproducer\n");
  if (script.getNumOccurrences() && opt.getNumOccurrences())
    return fail("--test and --opt are two tests; give one", SHALE_EXIT_USAGE);
  if (script.getNumOccurrences() && expect.getNumOccurrences())
    return fail("--expect needs --opt; with --test, the script looks at messages",
                SHALE_EXIT_USAGE);
  if (timeout == 0)
    return fail("--timeout must be at least 1", SHALE_EXIT_USAGE);
  if (output.empty())
    output = input == "-" ? "-" : (llvm::sys::path::stem(input) + ".reduced.mlir").str();
  if (fs::equivalent(input, output))
    return fail("'" + output + "' is the input; give another file with -o", SHALE_EXIT_USAGE);

  DialectRegistry registry;
  shale::registerAllDialects(registry);
  for (const std::string &plugin : plugins)
    if (llvm::Error wrong = loadPlugin(plugin, registry))
      return fail(std::move(wrong), SHALE_EXIT_UNAVAILABLE);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(allowUnregistered);
  std::string reproduced;
  ToolError why;
  CrashStage stage("parsing", input);
  auto buffer = openIr(input, why);
  if (!buffer)
    return fail(why.message, why.exitCode);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  ParserConfig config(&context, /*verifyAfterParse=*/!allowInvalid);
  readReproducer(config, reproduced);
  OwningOpRef<ModuleOp> module;
  {
    SourceMgrDiagnosticHandler handler(sources, &context);
    module = parseSourceFile<ModuleOp>(sources, config);
  }
  if (!module)
    return fail("cannot read '" + input + "'" +
                    (allowInvalid ? "" : "; if a verifier is at fault, add --allow-invalid"),
                SHALE_EXIT_DATA);
  setCrashStage("reducing");
  llvm::Expected<Test> test = makeTest(reproduced);
  if (!test)
    return fail(test.takeError(), SHALE_EXIT_USAGE);

  SmallString<128> folder;
  if (std::error_code error = fs::createUniqueDirectory("shale-reduce", folder))
    return fail("cannot make a temporary folder: " + error.message(), SHALE_EXIT_IO);
  llvm::scope_exit cleanUp([&] { (void)fs::remove_directories(folder); });
  blockSignals();
  llvm::CrashRecoveryContext::Enable();
  context.printOpOnDiagnostic(false); // no one reads why a candidate does not verify
  return reduce(*module, *test, folder);
}
