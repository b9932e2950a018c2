//===- GatherMaxima.cpp - Maxima over ranks by a gather -------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Sharding/Rules.h"
#include "mlir/IR/Builders.h"
#include "passes/sharding/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_GATHERMAXIMAPASS
#include "passes/sharding/Passes.h.inc"

/// Replaces a maximum over ranks by a gather of all ranks' operands and a local maximum.
static void gather(dist::AllReduceOp reduce, dist::MeshOp mesh) {
  OpBuilder builder(reduce);
  Location loc = reduce.getLoc();
  auto type = cast<RankedTensorType>(reduce.getType());
  Type element = type.getElementType();
  Value parts = nn::gatherPieces(builder, loc, {reduce.getAxis(), mesh.getSize(reduce.getAxis())},
                                 reduce.getInput());
  bool narrow = element.isBF16() || element.isF16();
  Value max = nn::ReduceOp::create(builder, loc, narrow ? type.clone(builder.getF32Type()) : type,
                                   nn::ReduceKind::Max, parts, builder.getDenseI64ArrayAttr({0}));
  if (narrow)
    max = nn::CastOp::create(builder, loc, type, max);
  reduce.replaceAllUsesWith(max);
  reduce.erase();
}

namespace {
struct GatherMaximaPass : impl::GatherMaximaPassBase<GatherMaximaPass> {
  using GatherMaximaPassBase::GatherMaximaPassBase;
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh)
      return;
    SmallVector<dist::AllReduceOp> maxima;
    getOperation().walk([&](dist::AllReduceOp reduce) {
      if (reduce.getReduction() == dist::Reduction::Max)
        maxima.push_back(reduce);
    });
    for (dist::AllReduceOp reduce : maxima)
      gather(reduce, mesh);
  }
};
} // namespace

} // namespace shale
