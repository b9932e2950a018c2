//===- shale-opt.cpp - Runs passes over IR text ---------------------------===//
#include "lib/Support/ParseDepth.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
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
  std::string error;
  auto file = mlir::openInputFile(input, &error);
  auto out = file ? mlir::openOutputFile(output, &error) : nullptr;
  if (file && out)
    if (llvm::Error deep = shale::checkParseDepth(file->getMemBufferRef()))
      error = llvm::toString(std::move(deep));
  if (!error.empty()) {
    llvm::errs() << "shale-opt: error: " << error << "\n";
    return EXIT_FAILURE;
  }
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return EXIT_FAILURE;
  out->keep();
  return EXIT_SUCCESS;
}
