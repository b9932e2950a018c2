//===- shale-translate.cpp - From model files to IR -----------------------===//
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/MLIRContext.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
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

static int usage(const llvm::Twine &text) {
  llvm::errs() << "shale-translate: " << text << "; see --help\n";
  return SHALE_EXIT_USAGE;
}

int main(int argc, char **argv) {
  shale::installCrashHandler("shale-translate");
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  if (llvm::Error wrong = shale::loadPlugins(argc, argv, registry)) {
    llvm::errs() << "shale-translate: error: " << llvm::toString(std::move(wrong)) << "\n";
    return SHALE_EXIT_UNAVAILABLE;
  }
  shale::onnx::ImportOptions options;
  std::string model, output = "-";
  bool import = false, describe = false, locations = false, quiet = false;
  for (int i = 1; i < argc; ++i) {
    StringRef arg = argv[i], value;
    bool hasValue = false;
    if (arg == "--help" || arg == "-h") {
      llvm::outs() << kHelp;
      return SHALE_EXIT_OK;
    }
    if (arg.starts_with("--") && arg.contains('=')) {
      std::tie(arg, value) = arg.split('=');
      hasValue = true;
    }
    if (arg == "--import-onnx") {
      import = true;
      if (hasValue)
        model = value.str();
    } else if (arg == "--missing-data") {
      options.missingData = shale::onnx::ImportOptions::MissingData::Remark;
    } else if (arg == "--keep-prefix" || arg == "--assume-autocast" || arg == "--describe" ||
               arg == "--locations" || arg == "--quiet") {
      (arg == "--keep-prefix"       ? options.parameters.keepPrefix
       : arg == "--assume-autocast" ? options.assumeAutocast
       : arg == "--describe"        ? describe
       : arg == "--locations"       ? locations
                                    : quiet) = true;
    } else if (arg == "--dim" || arg == "--batch-dim" || arg == "--bind" || arg == "--loss" ||
               arg == "--loss-output" || arg == "--gradient" || arg == "--dropout" ||
               arg == "--assume-derivative" || arg == "--assume-form" || arg == "--assume-merged" ||
               arg == "--freeze" || arg == "--constant" || arg == "--fold-limit" || arg == "-o") {
      if (!hasValue) {
        if (++i == argc)
          return usage(arg + " needs a value");
        value = argv[i];
      }
      if (arg == "--loss")
        options.loss = value.str();
      else if (arg == "--loss-output")
        options.lossOutput = value.str();
      else if (arg == "--freeze")
        options.parameters.freeze = value.str();
      else if (arg == "--assume-derivative")
        options.assumeDerivative.push_back(value.str());
      else if (arg == "--assume-merged")
        options.assumeMerged.push_back(value.str());
      else if (arg == "--assume-form")
        options.parameters.assumedForms.insert(value);
      else if (arg == "--constant")
        options.parameters.constants.insert(value);
      else if (arg == "--fold-limit") {
        if (value.getAsInteger(10, options.foldLimit) || options.foldLimit < 0)
          return usage("--fold-limit '" + value + "' is not a number of bytes");
      } else if (arg == "-o")
        output = value.str();
      else if (std::string wrong = shale::onnx::parseImportFlag(arg.drop_front(2), value, options);
               !wrong.empty())
        return usage(wrong);
    } else if (arg.starts_with("-") && arg != "-") {
      return usage("unknown flag '" + arg + "'");
    } else if (model.empty()) {
      model = arg.str();
    } else {
      return usage("more than one model");
    }
  }
  if (!import || model.empty())
    return usage("needs --import-onnx MODEL");

  if (llvm::sys::fs::is_directory(output)) { // before the work
    llvm::errs() << "shale-translate: error: " << output << ": it is a folder\n";
    return SHALE_EXIT_IO;
  }
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  if (!quiet)
    llvm::cantFail(shale::showRemarks(context, ""));
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    if (isError || !quiet)
      llvm::errs() << (isError                                                         ? "error: "
                       : diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning ? "warning: "
                       : diagnostic.getSeverity() == mlir::DiagnosticSeverity::Note    ? "note: "
                                                                                       : "remark: ")
                   << shale::printable(diagnostic.str()) << "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      llvm::errs() << "note: " << shale::printable(note.str()) << "\n";
    return mlir::success();
  });
  int exitCode = SHALE_EXIT_DATA;
  shale::CrashStage stage("importing", model);
  auto module = shale::onnx::importOnnx(model, options, &context, &exitCode);
  if (!module)
    return exitCode;
  shale::setCrashStage("printing the import");
  std::error_code error;
  llvm::ToolOutputFile file(output, error, llvm::sys::fs::OF_Text);
  if (error) {
    llvm::errs() << "shale-translate: " << output << ": " << error.message() << "\n";
    return SHALE_EXIT_IO;
  }
  if (describe) {
    shale::PrintableStream os(file.os());
    shale::onnx::describeModel(*module, os);
  } else {
    mlir::OpPrintingFlags flags;
    if (locations)
      flags.enableDebugInfo(true, false);
    module->print(file.os(), flags);
    file.os() << "\n";
  }
  file.keep();
  return SHALE_EXIT_OK;
}
