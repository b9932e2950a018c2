//===- GenerateKernels.cpp - Native functions of the plan's kernels -------===//
#include "dialects/rt/RT.h"
#include "passes/codegen/Kernel.h"
#include "passes/codegen/Passes.h"

namespace shale {
#define GEN_PASS_DEF_GENERATEKERNELSPASS
#include "passes/codegen/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Moves what was generated into the program; declarations only once.
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
    OwningOpRef<ModuleOp> generated = ModuleOp::create(module.getLoc());
    KernelOptions options;
    options.lanes = lanes;
    for (auto kernel : module.getOps<rt::KernelOp>()) {
      std::string name = ("kernel." + kernel.getSymName()).str();
      FailureOr<KernelInfo> info = generateKernel(*generated, name, kernel.getBody(), options);
      if (failed(info))
        return signalPassFailure();
      kernel.setRows(info->rows);
      kernel.setGrain(info->grain);
      kernel.setFunction(name);
    }
    if (failed(lowerKernels(*generated)))
      return signalPassFailure();
    moveInto(*generated, module);
  }
};

} // namespace
