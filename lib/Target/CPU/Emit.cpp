//===- Emit.cpp - Translates the LLVM dialect to object code --------------===//
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/Optimize.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace mlir;
using namespace shale;

namespace {

std::unique_ptr<llvm::TargetMachine> createMachine(StringRef level, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, level, "", options, llvm::Reloc::PIC_, std::nullopt,
                                   llvm::CodeGenOptLevel::Aggressive));
}

/// The passes of LLVM that run on kernels. Kernels already have vectors, and loops in the order of
/// memory. The passes inline the bodies, remove repeated index arithmetic and bounds, and move
/// invariants out of loops. With LLVM's pipeline for -O3 kernels are not faster, and it takes 2.5
/// times as long (docs/measurements/cpu.md).
constexpr const char *kPasses =
    "function(early-cse),cgscc(inline),globaldce,"
    "function("
    "sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm),"
    "loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),"
    "gvn,correlated-propagation,dse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),loop-unroll,div-rem-pairs)";

/// Rewrites masked stores of one known lane to scalar stores. LLVM 22's x86 instruction
/// selection does so, too, but if the value is a truncation it stores the untruncated
/// element: for 16-bit floats it overwrites the two bytes that follow. The reproducer is
/// a masked store of trunc <16 x i32> to <16 x i16> with a constant mask; the kernel test
/// of 16-bit floats with odd widths covers it.
void scalarizeSingleLaneStores(llvm::Module &module) {
  llvm::SmallVector<llvm::IntrinsicInst *> stores;
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : block)
        if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction))
          if (call->getIntrinsicID() == llvm::Intrinsic::masked_store)
            stores.push_back(call);
  for (llvm::IntrinsicInst *store : stores) {
    llvm::Value *value = store->getArgOperand(0), *address = store->getArgOperand(1);
    auto *mask = llvm::dyn_cast<llvm::Constant>(store->getArgOperand(2));
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
    if (!mask || !type)
      continue;
    unsigned count = 0, lane = 0;
    for (unsigned i = 0; i < type->getNumElements(); ++i)
      if (llvm::Constant *bit = mask->getAggregateElement(i); !bit || !bit->isNullValue())
        ++count, lane = i;
    if (count != 1)
      continue;
    llvm::IRBuilder<> builder(store);
    llvm::Value *place = builder.CreateConstInBoundsGEP1_64(type->getElementType(), address, lane);
    builder.CreateAlignedStore(builder.CreateExtractElement(value, uint64_t(lane)), place,
                               module.getDataLayout().getABITypeAlign(type->getElementType()));
    store->eraseFromParent();
  }
}

/// Translates and optimizes; null after an error on the module.
std::unique_ptr<llvm::Module> translate(ModuleOp module, StringRef level, bool wide,
                                        llvm::LLVMContext &context,
                                        std::unique_ptr<llvm::TargetMachine> &machine) {
  std::string error;
  machine = createMachine(level, error);
  if (!machine) {
    module.emitError() << "no machine for " << level << ": " << error;
    return nullptr;
  }
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context, "shale");
  if (!llvmModule) {
    module.emitError("translation to LLVM IR failed");
    return nullptr;
  }
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", level);
    // Without these attributes LLVM splits 512-bit vectors.
    function.addFnAttr("prefer-vector-width", wide ? "512" : "256");
    function.addFnAttr("min-legal-vector-width", wide ? "512" : "256");
  }
  runPasses(*llvmModule, *machine, kPasses);
  scalarizeSingleLaneStores(*llvmModule);
  return llvmModule;
}

} // namespace

LogicalResult CpuTarget::emitObject(ModuleOp module, SmallVectorImpl<char> &object) const {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvmModule =
      translate(module, getArchitecture(), lanes == 16, context, machine);
  if (!llvmModule)
    return failure();
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError() << getName() << " has no object files";
  passes.run(*llvmModule);
  return success();
}
