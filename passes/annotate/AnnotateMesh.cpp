//===- AnnotateMesh.cpp - Declares the mesh and the sharding strategy -----===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEMESHPASS
#include "passes/annotate/Passes.h.inc"

static LogicalResult annotateMesh(ModuleOp module, const MeshSpec &spec, Sharding sharding,
                                  bool reshard, bool syncEveryMicrobatch, bool keepSingleRank,
                                  WireTypes wire) {
  if (dist::getMesh(module))
    return module.emitError("has a mesh already");
  dist::Strategy kind = strategyOf(sharding);
  if (sharding == Sharding::Hybrid && !spec.hasAxisThat(dist::replicatesState))
    return module.emitError(
               "strategy 'hybrid' needs a mesh with a replica axis, for example replica=2,fsdp=4, not '")
           << textOf(spec) << "'";
  if (dist::splitsOptimizer(kind) && !spec.hasAxisThat(dist::splitsState))
    return module.emitError("strategy '")
           << textOf(sharding) << "' needs a mesh with a shard axis, for example fsdp=4, not '"
           << textOf(spec) << "'";
  if (module.lookupSymbol("mesh"))
    return module.emitError("something is named @mesh already");
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<int32_t> kinds;
  for (dist::AxisKind axis : spec.kinds)
    kinds.push_back(int32_t(axis));
  dist::MeshOp::create(
      builder, module.getLoc(), builder.getStringAttr("mesh"),
      builder.getStrArrayAttr(llvm::SmallVector<StringRef>(spec.names.begin(), spec.names.end())),
      builder.getDenseI32ArrayAttr(kinds), builder.getDenseI64ArrayAttr(spec.sizes),
      /*joint=*/ArrayAttr());
  module->setAttr(dist::kStrategyAttr, dist::StrategyAttr::get(module.getContext(), kind));
  if (!reshard)
    module->setAttr(dist::kKeepGatheredAttr, builder.getUnitAttr());
  if (!syncEveryMicrobatch)
    module->setAttr(dist::kReduceOnceAttr, builder.getUnitAttr());
  if (keepSingleRank)
    module->setAttr(dist::kKeepSingleRankAttr, builder.getUnitAttr());
  auto encoded = [&](dist::Encoding how) {
    return dist::EncodingAttr::get(module.getContext(), how);
  };
  if (wire.gather == WireKind::Encoded)
    module->setAttr(dist::kQuantizeGathersAttr, encoded(wire.gatherAs));
  if (wire.gathersFloats())
    module->setAttr(dist::kQuantizeGathersAttr,
                    TypeAttr::get(wire.gather == WireKind::BF16 ? Type(builder.getBF16Type())
                                                                : builder.getF16Type()));
  if (wire.reduce == WireKind::Encoded)
    module->setAttr(dist::kQuantizeReductionsAttr, encoded(wire.reduceAs));
  if (wire.tensor == WireKind::F32)
    module->setAttr(dist::kWideSumsAttr, builder.getUnitAttr());
  return success();
}

namespace {
struct AnnotateMeshPass : impl::AnnotateMeshPassBase<AnnotateMeshPass> {
  using AnnotateMeshPassBase::AnnotateMeshPassBase;
  void runOnOperation() final {
    if (failed(annotateMesh(getOperation(), mesh, shard, reshardAfterForward, syncEveryMicrobatch,
                            keepSingleRank, wire)))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
