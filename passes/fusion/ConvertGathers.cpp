//===- ConvertGathers.cpp - Casts shards before they are sent -------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_CONVERTGATHERSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

static void convertGather(dist::UnitGatherOp gather) {
  auto shard = cast<RankedTensorType>(gather.getInput().getType());
  auto whole = cast<RankedTensorType>(gather.getResult().getType());
  if (gather.getEncodingAttr() || shard.getElementType() == whole.getElementType())
    return;
  OpBuilder builder(gather);
  auto cast = nn::CastOp::create(builder, gather.getLoc(), shard.clone(whole.getElementType()),
                                 gather.getInput());
  nn::copyPhaseAndScope(gather, cast);
  dist::MeshOp mesh = dist::getMesh(gather);
  if (cast.getType() == whole && !(mesh && mesh.splits(gather.getAxis()))) {
    gather.getResult().replaceAllUsesWith(cast.getResult());
    gather.erase();
    return;
  }
  gather.getInputMutable().assign(cast.getResult());
}

namespace {
struct ConvertGathersPass : shale::impl::ConvertGathersPassBase<ConvertGathersPass> {
  using ConvertGathersPassBase::ConvertGathersPassBase;
  void runOnOperation() override {
    SmallVector<dist::UnitGatherOp> gathers;
    getOperation().walk([&](dist::UnitGatherOp gather) { gathers.push_back(gather); });
    for (dist::UnitGatherOp gather : gathers)
      convertGather(gather);
  }
};
} // namespace
