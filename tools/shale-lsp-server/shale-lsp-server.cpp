//===- shale-lsp-server.cpp - Serves IR files to editors ------------------===//
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "shale/InitAll.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
