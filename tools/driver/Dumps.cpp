//===- Dumps.cpp - Modules between two stages, in files -------------------===//
#include "tools/driver/Dumps.h"
#include "dialects/nn/NN.h"
#include "lib/Planning/Candidates.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/InputFile.h"
#include "lib/Support/PrintIR.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "shale/Runtime.h"
#include "tools/driver/CommandLine.h"
#include "tools/driver/Outputs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace shale;

/// On a dumped module: the flags of the compilation, "--name=value" each.
static constexpr llvm::StringLiteral kFlagsAttr = "shale.flags";
/// On a dumped module: the stage that made it.
static constexpr llvm::StringLiteral kStageAttr = "shale.stage";
/// Constants of more elements are elided in text.
static constexpr int64_t kShownElements = 1 << 16;

/// Returns the typed flags that decide what is compiled, not what is written or shown. With
/// `chosen` the planner's knobs have the values of `options`, and the memory limit that chose them
/// is left out.
static std::vector<std::string> flagsOf(const CompileOptions &options, bool chosen) {
  std::vector<std::string> flags;
  for (const auto &[name, value] : options.flags)
    if (const Flag *flag = flagNamed(name); flag && flag->effect != Effect::Report)
      if (!chosen || (!knobNamed(name) && name != "memory-limit"))
        flags.push_back("--" + name + "=" + value);
  if (chosen)
    for (const Knob &knob : allKnobs())
      if (std::string value = knob.flag->get(options); !value.empty())
        flags.push_back("--" + std::string(knob.flag->name) + "=" + value);
  return flags;
}

/// Returns what a function's argument is: an input, a setting or a state.
static StringRef argumentName(BlockArgument argument) {
  auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  if (auto name = function.getArgAttrOfType<StringAttr>(number, nn::kNameAttr))
    return name.getValue();
  if (auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(number, nn::kStateAttr))
    return state.getValue();
  if (auto role = function.getArgAttrOfType<nn::RoleAttr>(number, nn::kRoleAttr))
    return nn::stringifyRole(role.getValue());
  return "";
}

void shale::printModule(ModuleOp module, int64_t maxElements, raw_ostream &os) {
  printForPeople(module, maxElements, argumentName, os);
}

/// Returns a word as a shell reads it: in quotes if it has other characters than those of paths.
static std::string shellWord(StringRef word) {
  if (llvm::all_of(word,
                   [](char c) { return llvm::isAlnum(c) || StringRef("_-+=:,./").contains(c); }))
    return word.str();
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Returns the flags that load the plug-ins of `options`, whose ops must parse.
static std::string pluginFlags(const CompileOptions &options) {
  std::string flags;
  for (const std::string &plugin : options.plugins)
    flags += " " + shellWord("--load-pass-plugin=" + plugin);
  return flags;
}

std::string shale::repeatCommand(StringRef before, StringRef pipeline,
                                 const CompileOptions &options) {
  return "shale-opt" + pluginFlags(options) + " " + shellWord(before) + " " +
         shellWord(("--pass-pipeline=" + pipeline).str());
}

void shale::writeComment(StringRef text, raw_ostream &os) {
  if (!text.contains('\n')) // a comment ends with its line
    os << "// " << text << "\n";
}

/// Returns the command that imports the model again and writes its dumps.
static std::string importCommand(ArrayRef<std::string> flags, const CompileOptions &options) {
  std::string command = "shalec " + shellWord(options.model);
  for (StringRef flag : flags)
    command += " " + shellWord(flag);
  return command + " --plan-only --save-temps " + shellWord(options.saveTemps);
}

int shale::writeDump(ModuleOp module, StringRef prefix, StringRef stage, const DumpOrigin &origin,
                     const CompileOptions &options, bool chosen) {
  Builder builder(module.getContext());
  std::vector<std::string> flags = flagsOf(options, chosen);
  module->setAttr(kFlagsAttr,
                  builder.getStrArrayAttr(SmallVector<StringRef>(flags.begin(), flags.end())));
  module->setAttr(kStageAttr, builder.getStringAttr(stage));
  std::string text = prefix.str() + ".mlir", code = prefix.str() + ".mlirbc";
  int failed = writeOutput(text, [&](raw_ostream &os) {
    writeComment("To continue: shalec" + pluginFlags(options) + " --compile-from=" + stage.str() +
                     " " + shellWord(code) + " -o PROGRAM",
                 os);
    writeComment("To repeat the stage: " +
                     (origin.passes.empty() ? importCommand(flags, options)
                                            : repeatCommand(origin.before, origin.passes, options)),
                 os);
    printModule(module, kShownElements, os);
  });
  if (!failed)
    failed = writeOutput(code, [&](raw_ostream &os) {
      // Fails only for a version of bytecode that was asked for, which is none here.
      (void)writeBytecodeToFile(module, os);
    });
  module->removeAttr(kFlagsAttr);
  module->removeAttr(kStageAttr);
  return failed;
}

/// Whether a constant of the module was left out of its text.
static bool isElided(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        bool elided = false;
        op->getAttrDictionary().walk(
            [&](DenseResourceElementsAttr attr) { elided |= !attr.getRawHandle().getBlob(); });
        return elided ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

int shale::readDump(MLIRContext &context, CompileOptions &options, OwningOpRef<ModuleOp> &module) {
  auto error = [&](const llvm::Twine &message, int code) {
    llvm::errs() << "shalec: error: " << options.model << ": " << message << "\n";
    return code;
  };
  CrashStage parsing("parsing");
  ToolError wrong;
  std::unique_ptr<llvm::MemoryBuffer> text = openIr(options.model, wrong);
  if (!text) {
    llvm::errs() << "shalec: error: " << wrong.message << "\n";
    return wrong.exitCode;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return SHALE_EXIT_DATA;
  if (isElided(*module))
    return error("large constants were left out of this text: give the .mlirbc file beside it",
                 SHALE_EXIT_DATA);
  if (auto stage = (*module)->getAttrOfType<StringAttr>(kStageAttr)) {
    if (stage.getValue() != options.compileFrom)
      return error("stage " + stage.getValue() +
                       " made this module: --compile-from=" + stage.getValue(),
                   SHALE_EXIT_USAGE);
    (*module)->removeAttr(kStageAttr);
  }
  std::vector<std::string> words = {options.argv.front()};
  if (auto recorded = (*module)->getAttrOfType<ArrayAttr>(kFlagsAttr)) {
    for (Attribute flag : recorded) {
      auto text = dyn_cast<StringAttr>(flag);
      if (!text || !text.getValue().starts_with("--"))
        return error("'shale.flags' must hold flags", SHALE_EXIT_DATA);
      StringRef name = text.getValue().drop_front(2).split('=').first;
      if (!options.typed.count(name.str()))
        words.push_back(text.str());
    }
    (*module)->removeAttr(kFlagsAttr);
  }
  words.insert(words.end(), options.argv.begin() + 1, options.argv.end());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  ParsedOptions parsed = parseOptions(argv.size(), argv.data());
  if (!parsed.options)
    return parsed.exitCode ? parsed.exitCode : SHALE_EXIT_DATA;
  options = *parsed.options;
  return SHALE_EXIT_OK;
}
