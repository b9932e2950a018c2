//===- InitAll.cpp - Registration of everything Shale has -----------------===//
#include "shale/InitAll.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "dialects/rt/RT.h"
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CUDA/CUDA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Stages.h"
#include "passes/annotate/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/import/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/program/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/sharding/Passes.h"

void shale::registerAllTargets() {
  registerCpuTarget();
  registerCudaTarget();
}

void shale::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect,
                  mlir::vector::VectorDialect>();
  registry.insert<dist::DistDialect>();
  registry.insert<mem::MemDialect>();
  registry.insert<nn::NNDialect>();
  registry.insert<rt::RTDialect>();
  registerAllTargets();
  registerCpuKernels(registry);
  registerCudaKernels(registry);
  registerSearchMemo(registry);
}

void shale::registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerImportPasses();
  registerAutodiffPasses();
  registerPrecisionPasses();
  registerProgramPasses();
  registerAnnotatePasses();
  registerMemoryPasses();
  registerSchedulePasses();
  registerPlanPasses();
  registerFusionPasses();
  registerCodegenPasses();
  registerShardingPasses();
  registerStages();
}
