//===- shale-opt.cpp - Runs passes over IR text ---------------------------===//
#include "shale/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  shale::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Shale's pass driver\n", registry));
}
