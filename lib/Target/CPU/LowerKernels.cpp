//===- LowerKernels.cpp - Lowers kernels to the LLVM dialect --------------===//
//
// exp, tanh, erf and log are lowered to MLIR's polynomial approximations, so that
// vectors are not scalarized into libm calls. No pass contracts or reassociates
// floating-point operations.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/ExpandMath.h"
#include "lib/Target/RoundFloats.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace shale;

/// Builds llvm.func @name(%args, %begin, %end), which loads the buffers' addresses and
/// calls `inner`. `inner` becomes internal, so that it is inlined.
static void wrap(LLVM::LLVMFuncOp inner) {
  MLIRContext *context = inner.getContext();
  OpBuilder b(inner);
  Location loc = inner.getLoc();
  std::string name = inner.getName().str();
  inner.setName(name + "_body");
  inner.setLinkage(LLVM::Linkage::Internal);
  Type pointer = LLVM::LLVMPointerType::get(context), i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer, i64, i64});
  auto outer = LLVM::LLVMFuncOp::create(b, loc, name, type);
  b.setInsertionPointToEnd(outer.addEntryBlock(b));
  SmallVector<Value> operands;
  int64_t buffers = inner.getNumArguments() - 2;
  for (int64_t i = 0; i < buffers; ++i) {
    Value at = LLVM::GEPOp::create(b, loc, pointer, pointer, outer.getArgument(0),
                                   ArrayRef<LLVM::GEPArg>{int32_t(i)});
    operands.push_back(LLVM::LoadOp::create(b, loc, pointer, at));
  }
  operands.push_back(outer.getArgument(1));
  operands.push_back(outer.getArgument(2));
  LLVM::CallOp::create(b, loc, inner, operands);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

LogicalResult cpu::lowerFunctions(ModuleOp module) {
  roundByIntegers(module);
  if (failed(expandMath(module)))
    return failure();
  PassManager pm(module.getContext(), module.getOperationName());
  pm.enableVerifier(true);
  // Simplify loops and vectors before they are lowered.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createConvertVectorToSCFPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(arith::createArithExpandOpsPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(bare));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

FailureOr<std::vector<KernelUsage>> CpuTarget::lowerKernels(ModuleOp module) const {
  SmallVector<StringAttr> names;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      names.push_back(function.getSymNameAttr());
  if (failed(cpu::lowerFunctions(module)))
    return failure();
  for (StringAttr name : names)
    wrap(module.lookupSymbol<LLVM::LLVMFuncOp>(name));
  return std::vector<KernelUsage>();
}
