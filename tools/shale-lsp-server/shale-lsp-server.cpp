//===- shale-lsp-server.cpp - Serves IR files to editors ------------------===//
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  if (llvm::Error wrong = shale::loadPlugins(argc, argv, registry)) {
    llvm::errs() << "shale-lsp-server: error: " << llvm::toString(std::move(wrong)) << "\n";
    return SHALE_EXIT_UNAVAILABLE;
  }
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
