//===- GenerateKernels.cpp - Native functions of the plan's kernels -------===//
#include "dialects/mem/Mem.h"
#include "dialects/rt/RT.h"
#include "lib/Analysis/KernelReport.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/codegen/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace shale {
#define GEN_PASS_DEF_GENERATEKERNELSPASS
#include "passes/codegen/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Moves the generated ops into the program. Symbols that exist there are skipped.
void moveInto(ModuleOp generated, ModuleOp module) {
  SymbolTable symbols(module);
  for (Operation &op : llvm::make_early_inc_range(*generated.getBody())) {
    auto name = SymbolTable::getSymbolName(&op);
    if (symbols.lookup(name))
      continue;
    op.remove();
    symbols.insert(&op);
  }
}

struct GenerateKernelsPass : shale::impl::GenerateKernelsPassBase<GenerateKernelsPass> {
  using GenerateKernelsPassBase::GenerateKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const Target *target = targetOf(module);
    if (!target)
      return signalPassFailure();
    if (failed(generate(module, *target, mem::Memory::Device)) ||
        (&target->getHost() != target &&
         failed(generate(module, target->getHost(), mem::Memory::Host))))
      return signalPassFailure();
  }

  /// Generates the kernels whose buffers are in `memory`.
  static LogicalResult generate(ModuleOp module, const Target &target, mem::Memory memory) {
    llvm::StringMap<std::pair<rt::KernelOp, KernelInfo>> infos; // by the name of the code
    OwningOpRef<ModuleOp> generated = ModuleOp::create(module.getLoc());
    if (auto fast = module->getAttr(rt::kFastMathAttr))
      (*generated)->setAttr(rt::kFastMathAttr, fast);
    for (auto kernel : module.getOps<rt::KernelOp>()) {
      if (kernel.getHost() != (memory == mem::Memory::Host))
        continue;
      std::string name = ("kernel." + kernel.getSymName()).str();
      FailureOr<KernelInfo> info = target.generateKernel(*generated, name, kernel.getBody());
      if (failed(info))
        return failure();
      kernel.setRows(info->rows);
      kernel.setGrain(info->grain);
      kernel.setFunction(name);
      infos[name] = {kernel, *info};
    }
    FailureOr<std::vector<KernelUsage>> usage = target.lowerKernels(*generated);
    if (failed(usage))
      return failure();
    llvm::StringMap<std::vector<KernelUsage>> usageOf;
    for (KernelUsage &use : *usage)
      usageOf[use.name].push_back(std::move(use));
    for (auto &[name, compiled] : infos)
      recordCode(compiled.first, compiled.second, usageOf[name]);
    moveInto(*generated, module);
    return success();
  }
};

} // namespace
