//===- shale-opt.cpp - Runs passes over IR text ---------------------------===//
#include "lib/Support/CrashHandler.h"
#include "lib/Support/InputFile.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "tools/shale-opt/OpCounts.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

namespace {
/// Names the pass that runs, for the line that a crash prints.
struct CurrentPass : mlir::PassInstrumentation {
  void runBeforePass(mlir::Pass *pass, mlir::Operation *) override {
    if (!pass->getArgument().empty()) // else an adaptor of nested passes
      shale::setCrashStage(("running the pass '" + pass->getArgument() + "'").str());
  }
  void runAfterPass(mlir::Pass *pass, mlir::Operation *) override {
    if (!pass->getArgument().empty())
      shale::setCrashStage(
          ("verifying the result of the pass '" + pass->getArgument() + "'").str());
  }
};

/// Whether --mlir-pass-statistics was given.
bool asksForStatistics() {
  auto &options = llvm::cl::getRegisteredOptions();
  auto option = options.find("mlir-pass-statistics");
  return option != options.end() && option->second->getNumOccurrences() > 0;
}
} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  shale::installCrashHandler("shale-opt");
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  shale::registerAllPasses();
  if (llvm::Error wrong = shale::loadPlugins(argc, argv, registry)) {
    llvm::errs() << "shale-opt: error: " << llvm::toString(std::move(wrong)) << "\n";
    return SHALE_EXIT_UNAVAILABLE;
  }
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, "Shale's pass driver\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses()) // reads nothing
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  shale::CrashStage parsing("parsing", input);
  shale::ToolError wrong;
  auto file = shale::openIr(input, wrong);
  auto out = file ? mlir::openOutputFile(output, &wrong.message) : nullptr;
  if (!wrong.message.empty()) {
    llvm::errs() << "shale-opt: error: " << wrong.message << "\n";
    return EXIT_FAILURE;
  }
  auto pipeline = config;
  config.setPassPipelineSetupFn([pipeline](mlir::PassManager &manager) {
    manager.addInstrumentation(std::make_unique<CurrentPass>());
    if (asksForStatistics())
      manager.addInstrumentation(std::make_unique<shale::OpCounts>(llvm::errs()));
    return pipeline.setupPassPipeline(manager);
  });
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return EXIT_FAILURE;
  out->keep();
  return EXIT_SUCCESS;
}
