//===- LowerProgram.cpp - Lowers rt to host code and tables ---------------===//
#include "dialects/dist/Dist.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/program/Passes.h"
#include "passes/program/Program.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_LOWERPROGRAMPASS
#include "passes/program/Passes.h.inc"
} // namespace shale

/// Whether the model lies in a folder or below it, and so does its external data.
static bool isBeneath(ModuleOp module, StringRef folder) {
  auto model = module->getAttrOfType<StringAttr>(nn::kModelAttr);
  SmallString<128> path;
  return model && !folder.empty() && !llvm::sys::fs::real_path(model.getValue(), path) &&
         StringRef(path).starts_with((folder.rtrim('/') + "/").str());
}

namespace {
struct LowerProgramPass : public shale::impl::LowerProgramPassBase<LowerProgramPass> {
  using Base::Base;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    ProgramOptions options;
    options.describe = describe;
    if (relativePaths || isBeneath(module, folder))
      options.folder = folder;
    options.hostLimit = hostLimit;
    options.totalLimit = totalLimit;
    if (failed(defineProgramTables(module, options)) || failed(lowerStepFunctions(module)))
      return signalPassFailure();
    // Erase the ops that the tables were built from; only LLVM remains.
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (!isa<LLVM::LLVMDialect>(op.getDialect()))
        op.erase();
    SmallVector<StringAttr> names;
    for (NamedAttribute attr : module->getDiscardableAttrs())
      if (isa_and_nonnull<rt::RTDialect, dist::DistDialect, nn::NNDialect>(attr.getNameDialect()))
        names.push_back(attr.getName());
    for (StringAttr name : names)
      module->removeDiscardableAttr(name);
  }
};
} // namespace
