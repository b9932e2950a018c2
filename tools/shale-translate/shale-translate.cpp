//===- shale-translate.cpp - From model files to IR -----------------------===//
#include "include/shale/Runtime.h"
#include "lib/Analysis/Describe.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/MLIRContext.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

using llvm::StringRef;

static const char *kHelp = R"(usage: shale-translate --import-onnx MODEL [flags]

Imports an ONNX model into Shale's nn dialect and prints it.

Model:
  --dim NAME=SIZE         size of a named dimension, of the whole program
  --batch-dim INPUT:DIM   the dimension that ranks split (default: named `batch`)
  --loss FORM             next-token:LOGITS, cross-entropy:LOGITS,LABELS or
                          mse:OUT,TARGET, when the graph has no loss
  --loss-output NAME      the loss, when the graph has several scalar outputs, or
                          a weighted sum: lm=1,aux=0.01
  --gradient P=OUTPUT     the gradient of parameter P (default: outputs named
                          grad.P); none: derive the gradients nevertheless
  --bind INPUT=WHAT       tokens, tokens+1, ones or arange
  --dropout RATIO|off     the ratio of all dropouts in training mode
  --keep-prefix           keep the first component that all names share
  --assume-autocast       blocks under no_grad or autocast are autocast
  --assume-derivative F   the backward of autograd.Function F is the derivative of
                          its forward
  --assume-form OP        nodes of this operation are as PyTorch wrote them
  --assume-merged OP      merged operations of this kind have the same gradients
  --assume-tied true|false  whether weights with equal elements, of TorchScript's
                          exporter, are one parameter
  --freeze REGEX          parameters that are not trained
  --constant NAME         an initializer that depends on no parameter
  --fold-limit BYTES      maximum size of a value that is computed at import
                          (default: 64 MiB); larger ones stay ops
  --missing-data          the files of weights need not exist
  --load-pass-plugin FILE a plug-in with operators and dialects of its own

Output:
  -o FILE                 where to (default: standard output)
  --describe              print what the model is instead of IR
  --locations             print locations (node names)
  --quiet                 no remarks
  --help
)";

namespace {

/// What the command line asks for.
struct Request {
  shale::onnx::ImportOptions options;
  std::string model, output = "-";
  bool import = false, help = false, describe = false, locations = false, quiet = false;
};

/// Returns what a flag without a value switches on, or null.
bool *findSwitch(Request &request, StringRef flag) {
  return llvm::StringSwitch<bool *>(flag)
      .Cases({"--help", "-h"}, &request.help)
      .Case("--keep-prefix", &request.options.parameters.keepPrefix)
      .Case("--assume-autocast", &request.options.assumeAutocast)
      .Case("--describe", &request.describe)
      .Case("--locations", &request.locations)
      .Case("--quiet", &request.quiet)
      .Default(nullptr);
}

bool takesValue(StringRef flag) {
  return llvm::is_contained({"--dim", "--batch-dim", "--bind", "--loss", "--loss-output",
                             "--gradient", "--dropout", "--assume-derivative", "--assume-form",
                             "--assume-merged", "--assume-tied", "--freeze", "--constant",
                             "--fold-limit", "--without-rule", "-o"},
                            flag);
}

/// Leaves out a rule that finds parameters: a test of the tests, which is not in the help.
std::string leaveOut(StringRef rule, shale::onnx::ImportOptions &options) {
  std::vector<StringRef> names = shale::onnx::ruleNames();
  options.parameters.rulesOff.insert(rule);
  return llvm::is_contained(names, rule)
             ? ""
             : "--without-rule '" + rule.str() + "' is none of " + llvm::join(names, ", ");
}

/// Sets a flag that takes a value. Returns what is wrong, or an empty string.
std::string setValue(Request &request, StringRef flag, StringRef value) {
  shale::onnx::ImportOptions &options = request.options;
  if (flag == "--loss")
    options.loss = value.str();
  else if (flag == "--loss-output")
    options.lossOutput = value.str();
  else if (flag == "--freeze")
    options.parameters.freeze = value.str();
  else if (flag == "--assume-derivative")
    options.assumeDerivative.push_back(value.str());
  else if (flag == "--assume-merged")
    options.assumeMerged.push_back(value.str());
  else if (flag == "--assume-form")
    options.parameters.assumedForms.insert(value);
  else if (flag == "--assume-tied" && value != "true" && value != "false")
    return ("--assume-tied '" + value + "' is not one of true, false").str();
  else if (flag == "--assume-tied")
    options.parameters.assumeTied = value == "true";
  else if (flag == "--constant")
    options.parameters.constants.insert(value);
  else if (flag == "--without-rule")
    return leaveOut(value, options);
  else if (flag == "-o")
    request.output = value.str();
  else if (flag != "--fold-limit")
    return shale::onnx::parseImportFlag(flag.drop_front(2), value, options);
  else if (value.getAsInteger(10, options.foldLimit) || options.foldLimit < 0)
    return ("--fold-limit '" + value + "' is not a number of bytes").str();
  return "";
}

/// Returns what is wrong with the command line, or an empty string.
std::string parse(llvm::ArrayRef<char *> args, Request &request) {
  for (size_t i = 0; i < args.size(); ++i) {
    StringRef arg = args[i];
    bool hasValue = arg.starts_with("--") && arg.contains('=');
    auto [flag, value] = hasValue ? arg.split('=') : std::pair(arg, StringRef());
    if (bool *on = findSwitch(request, flag)) {
      *on = true;
      if (request.help)
        return "";
    } else if (flag == "--import-onnx") {
      request.import = true;
      if (hasValue)
        request.model = value.str();
    } else if (flag == "--missing-data") {
      request.options.missingData = shale::onnx::ImportOptions::MissingData::Remark;
    } else if (takesValue(flag)) {
      if (!hasValue && ++i == args.size())
        return (flag + " needs a value").str();
      std::string wrong = setValue(request, flag, hasValue ? value : StringRef(args[i]));
      if (!wrong.empty())
        return wrong;
    } else if (arg.starts_with("-") && arg != "-") {
      return ("unknown flag '" + flag + "'").str();
    } else if (request.model.empty()) {
      request.model = arg.str();
    } else {
      return "more than one model";
    }
  }
  return !request.import || request.model.empty() ? "needs --import-onnx MODEL" : "";
}

void print(mlir::Diagnostic &diagnostic, bool quiet) {
  const char *severity = "remark: ";
  switch (diagnostic.getSeverity()) {
  case mlir::DiagnosticSeverity::Error:
    severity = "error: ";
    break;
  case mlir::DiagnosticSeverity::Warning:
    severity = "warning: ";
    break;
  case mlir::DiagnosticSeverity::Note:
    severity = "note: ";
    break;
  case mlir::DiagnosticSeverity::Remark:
    break;
  }
  if (!quiet || diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
    llvm::errs() << severity << shale::printable(diagnostic.str()) << "\n";
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "note: " << shale::printable(note.str()) << "\n";
}

/// Imports the model and writes what is asked for. Returns an exit code.
int translate(const Request &request, mlir::DialectRegistry &registry) {
  if (llvm::sys::fs::is_directory(request.output)) { // before the work
    llvm::errs() << "shale-translate: error: " << request.output << ": it is a folder\n";
    return SHALE_EXIT_IO;
  }
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  if (!request.quiet)
    llvm::cantFail(shale::showRemarks(context, ""));
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    print(diagnostic, request.quiet);
    return mlir::success();
  });
  int exitCode = SHALE_EXIT_DATA;
  shale::CrashStage stage("importing", request.model);
  auto module = shale::onnx::importOnnx(request.model, request.options, &context, &exitCode);
  if (!module)
    return exitCode;
  shale::setCrashStage("printing the import");
  std::error_code error;
  llvm::ToolOutputFile file(request.output, error, llvm::sys::fs::OF_Text);
  if (error) {
    llvm::errs() << "shale-translate: " << request.output << ": " << error.message() << "\n";
    return SHALE_EXIT_IO;
  }
  if (request.describe) {
    shale::PrintableStream os(file.os());
    shale::describeModel(*module, os);
  } else {
    mlir::OpPrintingFlags flags;
    if (request.locations)
      flags.enableDebugInfo(true, false);
    module->print(file.os(), flags);
    file.os() << "\n";
  }
  file.keep();
  return SHALE_EXIT_OK;
}

} // namespace

int main(int argc, char **argv) {
  shale::installCrashHandler("shale-translate");
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  if (llvm::Error wrong = shale::loadPlugins(argc, argv, registry)) {
    llvm::errs() << "shale-translate: error: " << llvm::toString(std::move(wrong)) << "\n";
    return SHALE_EXIT_UNAVAILABLE;
  }
  Request request;
  if (std::string wrong = parse(llvm::ArrayRef(argv, argc).drop_front(), request); !wrong.empty()) {
    llvm::errs() << "shale-translate: " << wrong << "; see --help\n";
    return SHALE_EXIT_USAGE;
  }
  if (request.help) {
    llvm::outs() << kHelp;
    return SHALE_EXIT_OK;
  }
  return translate(request, registry);
}
