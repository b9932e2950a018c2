//===- AnnotateMesh.cpp - Declares the mesh and the sharding strategy -----===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEMESHPASS
#include "passes/annotate/Passes.h.inc"

/// Parses `replica=2,fsdp=4`. Fails after an error.
static LogicalResult parseMesh(ModuleOp module, StringRef text,
                               SmallVectorImpl<StringRef> &axes,
                               SmallVectorImpl<int64_t> &sizes) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    name = name.trim();
    int64_t count = 0;
    if (name.empty() || size.trim().getAsInteger(10, count) || count < 1 ||
        count > (1 << 20) || (ranks *= count) > (1 << 20))
      return module.emitError("mesh '")
             << text << "' is not of the form axis=size,axis=size with sizes "
             << "from 1 on and at most 1048576 ranks";
    if (llvm::is_contained(axes, name))
      return module.emitError("mesh '") << text << "' has two axes '" << name << "'";
    axes.push_back(name);
    sizes.push_back(count);
  }
  return success();
}

static LogicalResult annotateMesh(ModuleOp module, StringRef text,
                                  StringRef strategy, bool reshard) {
  SmallVector<StringRef> axes;
  SmallVector<int64_t> sizes;
  if (dist::getMesh(module))
    return module.emitError("has a mesh already");
  if (failed(parseMesh(module, text, axes, sizes)))
    return failure();
  if (strategy == "hybrid") {
    if (!llvm::is_contained(axes, "replica"))
      return module.emitError("strategy 'hybrid' needs a mesh with a replica "
                              "axis, for example replica=2,fsdp=4, not '")
             << text << "'";
    strategy = "full";
  }
  if (!llvm::is_contained({"none", "optimizer", "grad", "full"}, strategy))
    return module.emitError("strategy '")
           << strategy << "' is none of none, optimizer, grad, full, hybrid";
  if (strategy != "none" && !llvm::is_contained(axes, "fsdp"))
    return module.emitError("strategy '")
           << strategy << "' splits over axis 'fsdp', which mesh '" << text
           << "' has not";
  if (module.lookupSymbol("mesh"))
    return module.emitError("something is named @mesh already");
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp::create(builder, module.getLoc(), builder.getStringAttr("mesh"),
                       builder.getStrArrayAttr(axes),
                       builder.getDenseI64ArrayAttr(sizes));
  module->setAttr(dist::kStrategyAttr, builder.getStringAttr(strategy));
  if (!reshard)
    module->setAttr(dist::kKeepGatheredAttr, builder.getUnitAttr());
  return success();
}

namespace {
struct AnnotateMeshPass : impl::AnnotateMeshPassBase<AnnotateMeshPass> {
  using AnnotateMeshPassBase::AnnotateMeshPassBase;
  void runOnOperation() final {
    if (failed(annotateMesh(getOperation(), mesh, strategy,
                            reshardAfterForward)))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
