//===- InitAll.cpp - Registration of everything Shale has -----------------===//
#include "shale/InitAll.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "dialects/rt/RT.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/schedule/Passes.h"

void shale::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect>();
  registry.insert<dist::DistDialect>();
  registry.insert<mem::MemDialect>();
  registry.insert<nn::NNDialect>();
  registry.insert<rt::RTDialect>();
}

void shale::registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerAutodiffPasses();
  registerSchedulePasses();
}
