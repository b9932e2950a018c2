//===- LowerToNvvm.cpp - Lowers GPU kernels to NVVM and PTX ---------------===//
//
// The code contains no call of libdevice and no contracted operation, so that the
// same kernels compiled for a CPU compute the same bits, unless they allow approximations.
//
//===----------------------------------------------------------------------===//
#include "dialects/interfaces/Float8.h"
#include "lib/Target/CUDA/FastMath.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/ExpandMath.h"
#include "lib/Target/Optimize.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

/// Replaces an op of one result by a call of an intrinsic with the same operands.
static void replaceByIntrinsic(Operation *op, const Twine &name) {
  OpBuilder b(op);
  auto call = LLVM::CallIntrinsicOp::create(b, op->getLoc(), op->getResult(0).getType(),
                                            b.getStringAttr(name), op->getOperands());
  op->replaceAllUsesWith(call);
  op->erase();
}

/// Hides intrinsics, llvm.intr.sqrt for example, from the conversion to NVVM, which would replace
/// them by calls of libdevice.
static void hideIntrinsics(gpu::GPUModuleOp kernels) {
  kernels.walk([](Operation *op) {
    StringRef name = op->getName().getStringRef();
    if (name.consume_front("llvm.intr.") && op->getNumResults() == 1 &&
        isa<FloatType>(op->getResult(0).getType()))
      replaceByIntrinsic(op, "llvm." + name);
  });
}

/// Makes conversions to 8-bit floats instructions, which make numbers beyond the range of the type
/// its largest.
static void keep8BitFloats(gpu::GPUModuleOp kernels) {
  kernels.walk([](arith::TruncFOp op) {
    Type narrow = op.getType();
    if (!is8BitFloat(narrow) || !op.getIn().getType().isF32())
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    StringRef name =
        isa<Float8E5M2Type>(narrow) ? "llvm.nvvm.ff.to.e5m2x2.rn" : "llvm.nvvm.ff.to.e4m3x2.rn";
    Value none = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    auto both = LLVM::CallIntrinsicOp::create(b, loc, b.getI16Type(), b.getStringAttr(name),
                                              {none, withoutLimits(op.getIn(), narrow)});
    Value low = arith::TruncIOp::create(b, loc, b.getI8Type(), both.getResult(0));
    op.replaceAllUsesWith(arith::BitcastOp::create(b, loc, narrow, low).getResult());
    op.erase();
  });
}

/// Makes maxima and minima of floats instructions: the expansion of arith ops would compare and
/// select.
static void keepMaxima(gpu::GPUModuleOp kernels) {
  kernels.walk([](Operation *op) {
    if (!isa<arith::MaximumFOp, arith::MinimumFOp>(op) || !op->getResult(0).getType().isF32())
      return;
    replaceByIntrinsic(op, isa<arith::MaximumFOp>(op) ? "llvm.maximum" : "llvm.minimum");
  });
}

/// Moves kernels whose indices have 32 bits into a module of their own. Their sums and matmuls
/// never overflow.
static gpu::GPUModuleOp takeNarrow(gpu::GPUModuleOp kernels) {
  OpBuilder b(kernels);
  auto narrow = gpu::GPUModuleOp::create(b, kernels.getLoc(), "narrow");
  for (auto function : llvm::make_early_inc_range(kernels.getOps<gpu::GPUFuncOp>())) {
    bool usesData = function.walk([](memref::GetGlobalOp) { return WalkResult::interrupt(); })
                        .wasInterrupted(); // it is not moved
    if (!function->removeAttr(kNarrowIndex) || usesData)
      continue;
    function->moveBefore(narrow.getBody(), narrow.getBody()->end());
    function.walk([](Operation *op) {
      if (auto flags = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
          flags && op->getResult(0).getType().isIndex())
        op->setAttr(flags.getIntegerOverflowAttrName(),
                    arith::IntegerOverflowFlagsAttr::get(op->getContext(),
                                                         arith::IntegerOverflowFlags::nsw));
    });
  }
  return narrow;
}

static LogicalResult lower(gpu::GPUModuleOp kernels, unsigned indexBits) {
  useApproximations(kernels);
  if (failed(expandMath(kernels)))
    return failure();
  keep8BitFloats(kernels);
  keepMaxima(kernels);
  PassManager pm(kernels.getContext(), kernels->getName().getStringRef());
  pm.enableVerifier(true);
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(arith::createArithExpandOpsPass());
  // Before the conversion to NVVM, which would make calls of libdevice.
  pm.addPass(createConvertMathToLLVMPass());
  if (failed(pm.run(kernels)))
    return failure();
  hideIntrinsics(kernels);
  PassManager conversion(kernels.getContext(), kernels->getName().getStringRef());
  conversion.enableVerifier(true);
  ConvertGpuOpsToNVVMOpsOptions options;
  options.useBarePtrCallConv = true;
  options.indexBitwidth = indexBits;
  conversion.addPass(createConvertGpuOpsToNVVMOps(options));
  conversion.addPass(createReconcileUnrealizedCastsPass());
  conversion.addPass(createCanonicalizerPass());
  conversion.addPass(createCSEPass());
  return conversion.run(kernels);
}

LogicalResult cuda::lowerToNvvm(gpu::GPUModuleOp kernels) {
  gpu::GPUModuleOp narrow = takeNarrow(kernels);
  if (failed(lower(kernels, 64)) || failed(lower(narrow, 32)))
    return failure();
  kernels.getBody()->getOperations().splice(kernels.getBody()->end(),
                                            narrow.getBody()->getOperations());
  narrow.erase();
  return success();
}

static std::unique_ptr<llvm::TargetMachine> createMachine(const Architecture &architecture,
                                                          std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, architecture.name, ("+" + architecture.ptx).str(), options, std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

namespace {

/// The PTX of one architecture. A thread of its own makes it, so it has a context of its own.
struct Emitted {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::string text;
  bool works = true;

  void emit() {
    optimizeModule(*module, *machine);
    llvm::SmallString<0> buffer;
    llvm::raw_svector_ostream out(buffer);
    llvm::legacy::PassManager passes;
    works =
        !machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile);
    if (works)
      passes.run(*module);
    text = buffer.str().str();
  }
};

} // namespace

FailureOr<std::vector<std::string>> cuda::emitPtx(gpu::GPUModuleOp kernels,
                                                  ArrayRef<Architecture> architectures) {
  MLIRContext &context = *kernels.getContext();
  registerBuiltinDialectTranslation(context);
  registerGPUDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  registerNVVMDialectTranslation(context);
  std::vector<Emitted> emitted(architectures.size());
  // The translation changes the module, so that it runs once at a time.
  for (auto [architecture, one] : llvm::zip(architectures, emitted)) {
    std::string error;
    one.machine = createMachine(architecture, error);
    if (!one.machine)
      return kernels.emitError() << "no code generator for " << architecture.name << ": " << error;
    // The translation takes the alignment of loads and stores from the layout: without one,
    // integers of 8 bytes have 4.
    kernels->setAttr(
        LLVM::LLVMDialect::getDataLayoutAttrName(),
        StringAttr::get(&context, one.machine->createDataLayout().getStringRepresentation()));
    one.module = translateModuleToLLVMIR(kernels, one.context, "shale");
    if (!one.module)
      return kernels.emitError("translation to LLVM IR failed");
    one.module->setTargetTriple(one.machine->getTargetTriple());
  }
  llvm::DefaultThreadPool pool;
  for (Emitted &one : emitted)
    pool.async([&one] { one.emit(); });
  pool.wait();
  std::vector<std::string> texts;
  for (auto [architecture, one] : llvm::zip(architectures, emitted)) {
    if (!one.works)
      return kernels.emitError() << architecture.name << " has no assembly";
    texts.push_back(std::move(one.text));
  }
  return texts;
}
