//===- AnnotateMesh.cpp - Declares the mesh and the sharding strategy -----===//
#include "dialects/dist/Dist.h"
#include "lib/Support/MeshSpec.h"
#include "mlir/IR/Builders.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEMESHPASS
#include "passes/annotate/Passes.h.inc"

static LogicalResult annotateMesh(ModuleOp module, StringRef text,
                                  StringRef strategy, bool reshard,
                                  bool syncEveryMicrobatch) {
  MeshSpec spec;
  if (dist::getMesh(module))
    return module.emitError("has a mesh already");
  if (std::string wrong = parseMesh(text, spec); !wrong.empty())
    return module.emitError(wrong);
  if (strategy == "hybrid") {
    if (!llvm::is_contained(spec.names, "replica"))
      return module.emitError("strategy 'hybrid' needs a mesh with a replica "
                              "axis, for example replica=2,fsdp=4, not '")
             << text << "'";
    strategy = "full";
  }
  if (!llvm::is_contained({"none", "optimizer", "grad", "full"}, strategy))
    return module.emitError("strategy '")
           << strategy << "' is none of none, optimizer, grad, full, hybrid";
  if (strategy != "none" && !llvm::is_contained(spec.names, "fsdp"))
    return module.emitError("strategy '")
           << strategy << "' splits over axis 'fsdp', which mesh '" << text
           << "' has not";
  if (module.lookupSymbol("mesh"))
    return module.emitError("something is named @mesh already");
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp::create(builder, module.getLoc(), builder.getStringAttr("mesh"),
                       builder.getStrArrayAttr(
                           llvm::SmallVector<StringRef>(spec.names.begin(), spec.names.end())),
                       builder.getDenseI64ArrayAttr(spec.sizes));
  module->setAttr(dist::kStrategyAttr, builder.getStringAttr(strategy));
  if (!reshard)
    module->setAttr(dist::kKeepGatheredAttr, builder.getUnitAttr());
  if (!syncEveryMicrobatch)
    module->setAttr(dist::kReduceOnceAttr, builder.getUnitAttr());
  return success();
}

namespace {
struct AnnotateMeshPass : impl::AnnotateMeshPassBase<AnnotateMeshPass> {
  using AnnotateMeshPassBase::AnnotateMeshPassBase;
  void runOnOperation() final {
    if (failed(annotateMesh(getOperation(), mesh, strategy,
                            reshardAfterForward, syncEveryMicrobatch)))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
